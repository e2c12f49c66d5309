/* Quantised tensors: codes and the numbers that they stand for, and weights of codes. */
#include <math.h>
#include <string.h>

#include "base/checked.h"
#include "base/dtype.h"
#include "base/encoding.h"
#include "import/coded.h"
#include "import/tflite/converters.h"

bool tflite_is_quantized(const operand *tensor) { return tensor->n_scales > 0; }

bool tflite_same_codes(const operand *tensor, const operand *other) {
  return tensor->n_scales == 1 && other->n_scales == 1 && tensor->dtype == other->dtype &&
         tensor->scale == other->scale && tensor->zero == other->zero;
}

/* ---------------------------------------------------------------- numbers at import */

static flat_vector operand_scales(const operand *tensor) {
  const flat_table quantization = flat_child(&tensor->table, 4);
  return flat_list(&quantization, 2, 4);
}

static int64_t zero_at(const operand *tensor, int64_t channel) {
  const flat_table quantization = flat_child(&tensor->table, 4);
  const flat_vector zeros = flat_list(&quantization, 3, 8);
  return flat_int_at(&zeros, zeros.count == 1 ? 0 : (uint32_t)channel);
}

static int64_t code_at(const value *codes, int64_t i) {
  const char *at = (const char *)codes->data + (size_t)i * clave_dtype_size(codes->type);
  return (int64_t)element_number((dtype)codes->type, at);
}

/* Returns the number of elements that one step along the axis of the scales skips, and checks that
 * the scales fit the axis. */
static int64_t channel_stride(importer *im, const operand *tensor, const value *codes) {
  int64_t stride = 1;
  if (tensor->n_scales == 1) return 1;
  if (tensor->axis < 0 || tensor->axis >= codes->rank ||
      !number_is(codes->dims[tensor->axis], tensor->n_scales)) {
    import_invalid(im, "tensor '%.100s' has %d scales along axis %d", tensor->name,
                   tensor->n_scales, tensor->axis);
    return 1;
  }
  for (int d = tensor->axis + 1; d < codes->rank; d++) stride *= codes->dims[d].i;
  return stride;
}

/* Returns a constant of numbers of the shape of `like`. */
static value *number_constant(importer *im, const value *like, const float *numbers) {
  int64_t dims[CLAVE_MAX_RANK];
  for (int d = 0; d < like->rank; d++) dims[d] = like->dims[d].i;
  const char *name = import_text(im, "%s#%u", like->name, im->n_names++);
  return numbers && import_ok(im) ? value_constant(im, name, CLAVE_F32, like->rank, dims, numbers)
                                  : NULL;
}

/* Returns a constant of the numbers of constant codes. */
static value *decoded_constant(importer *im, operand *tensor, const value *codes) {
  const int64_t n = value_count(codes), stride = channel_stride(im, tensor, codes);
  const flat_vector scales = operand_scales(tensor);
  float *numbers = import_alloc(im, (size_t)n + 1, sizeof *numbers);
  for (int64_t i = 0; numbers && import_ok(im) && i < n; i++) {
    const int64_t channel = tensor->n_scales == 1 ? 0 : i / stride % tensor->n_scales;
    const int64_t zero = tensor->n_scales == 1 ? tensor->zero : zero_at(tensor, channel);
    numbers[i] = (float)(code_at(codes, i) - zero) * flat_float_at(&scales, (uint32_t)channel);
  }
  return number_constant(im, codes, numbers);
}

/* ---------------------------------------------------------------- numbers at run time */

bool tflite_code_limits(clave_dtype type, double *low, double *high) {
  if (type != CLAVE_I8 && type != CLAVE_U8 && type != CLAVE_I16) return false;
  *low = type == CLAVE_U8 ? 0 : type == CLAVE_I8 ? INT8_MIN : INT16_MIN;
  *high = type == CLAVE_U8 ? UINT8_MAX : type == CLAVE_I8 ? INT8_MAX : INT16_MAX;
  return true;
}

static bool is_code_type(importer *im, const operand *tensor) {
  double low, high;
  if (tflite_code_limits(tensor->dtype, &low, &high)) return true;
  import_unsupported(im, "quantised codes of dtype %s", tflite_dtype_name(tensor->type));
  return false;
}

value *tflite_dequantized(importer *im, operand *tensor, value *codes) {
  if (!codes || !import_ok(im)) return NULL;
  if (codes->data && (tensor->dtype == CLAVE_I32 || is_code_type(im, tensor)))
    return decoded_constant(im, tensor, codes);
  if (!is_code_type(im, tensor)) return NULL;
  if (tensor->n_scales != 1) {
    import_unsupported(im, "computed codes with one scale for each channel");
    return NULL;
  }
  value *out = emit_cast(im, codes, CLAVE_F32);
  if (tensor->zero) out = emit_binary_float(im, "sub", out, (double)tensor->zero);
  return emit_binary_float(im, "mul", out, (double)tensor->scale);
}

/* Rounds halves away from zero, as TFLite does. */
value *tflite_rounded(importer *im, value *input) {
  value *half = value_of_float(im, CLAVE_F32, 0.5);
  return emit_unary(
      im, "trunc",
      emit_binary(im, "add", input, emit_step(im, "copysign", (value *[]){half, input}, 2)));
}

/* Converts whole numbers to codes, which saturate. */
value *tflite_saturated(importer *im, value *input, clave_dtype type) {
  double low = 0, high = 0;
  (void)tflite_code_limits(type, &low, &high);
  value *limits[] = {input, value_of_float(im, CLAVE_F32, low),
                     value_of_float(im, CLAVE_F32, high)};
  return input ? emit_cast(im, emit_step(im, "clamp", limits, 3), type) : NULL;
}

/* XNNPACK rounds halves of sums of products to even. The passes and kernels of the backends
 * recognise this rounding, and only products with scales of powers of 2 have halves. */
value *tflite_quantized(operation *op, const operand *to, value *input) {
  importer *im = op->im;
  if (!input || !import_ok(im) || !is_code_type(im, to)) return NULL;
  if (to->n_scales != 1) {
    import_unsupported(im, "a result with one scale for each channel");
    return NULL;
  }
  value *out = emit_binary_float(im, "mul", input, (double)(float)(1.0 / (double)to->scale));
  out = op->is_sum ? emit_unary(im, "round", out) : tflite_rounded(im, out);
  out = emit_binary_float(im, "add", out, (double)to->zero);
  return tflite_saturated(im, out, to->dtype);
}

/* ---------------------------------------------------------------- weights */

/* True if the codes of a constant can be used as they are: signed, of zeros 0, and with one scale,
 * or one along the axis that becomes the first. */
static bool keeps_weight_codes(const operand *tensor, const value *codes, const int *order) {
  return codes->data && tensor->n_scales > 0 && tensor->dtype == CLAVE_I8 && !tensor->has_zeros &&
         !tensor->zero && (tensor->n_scales == 1 || tensor->axis == order[0]) &&
         value_count(codes) > 0;
}

/* Makes a constant of rows of codes, each with its scale. codes: (O, ...), contiguous. */
static value *encoded_weight(operation *op, const operand *tensor, const value *codes) {
  importer *im = op->im;
  const encoding encoding = {.kind = ENCODING_GROUPS, .axis = 1, .bits = 8, .scale = DTYPE_F32};
  const int64_t n = codes->dims[0].i, row = value_count(codes) / n;
  const size_t bytes = encoding_row_bytes(&encoding, row),
               scale_at = encoding_code_bytes(&encoding, row);
  const flat_vector scales = operand_scales(tensor);
  int64_t dims[CLAVE_MAX_RANK];
  uint8_t *rows = import_alloc(im, (size_t)n, bytes);
  for (int64_t r = 0; rows && r < n; r++) {
    uint8_t *to = rows + (size_t)r * bytes;
    const float scale = flat_float_at(&scales, tensor->n_scales == 1 ? 0 : (uint32_t)r);
    for (int64_t i = 0; i < row; i++) to[i] = (uint8_t)(code_at(codes, r * row + i) + 128);
    memcpy(to + scale_at, &scale, sizeof scale);
  }
  value *out = rows ? value_new(im, CLAVE_F32, codes->rank, codes->dims) : NULL;
  if (!out) return NULL;
  for (int d = 0; d < codes->rank; d++) dims[d] = codes->dims[d].i;
  const clave_tensor data = clave_tensor_make(CLAVE_U8, 2, (int64_t[]){n, (int64_t)bytes}, rows);
  out->tensor = clave_builder_encoded(im->builder, tflite_unique_name(op->tflite, tensor->name),
                                      "int8", CLAVE_F32, codes->rank, dims, &data, true);
  return out;
}

/* Returns a constant of 16-bit floats as F32. */
static value *half_to_float(importer *im, const value *input) {
  const int64_t n = value_count(input);
  float *numbers = import_alloc(im, (size_t)n + 1, sizeof *numbers);
  const char *at = input->data;
  for (int64_t i = 0; numbers && i < n; i++)
    numbers[i] = (float)element_number((dtype)input->type, at + (size_t)i * 2);
  return number_constant(im, input, numbers);
}

/* Returns a constant tensor of the subgraph. Scales are F32. */
static value *block_constant(operation *op, int64_t index) {
  operand *tensor = index >= 0 && index < op->graph->n ? &op->graph->operands[index] : NULL;
  if (!tensor || !tflite_is_constant(op->tflite, tensor)) {
    import_unsupported(op->im, "scales of blocks that are not constant");
    return NULL;
  }
  value *stored = tflite_constant(op->tflite, tensor);
  return stored && clave_dtype_size(stored->type) == 2 && dtype_is_float((dtype)stored->type)
             ? half_to_float(op->im, stored)
             : stored;
}

/* Returns the weight of codes in blocks along the last axis. */
static value *block_weight(operation *op, const operand *tensor, value *codes) {
  const coded_source source = {
      .codes = codes,
      .scale = block_constant(op, tensor->block_scales),
      .zero = tensor->block_zeros >= 0 ? block_constant(op, tensor->block_zeros) : NULL,
      .axis = codes->rank - 1,
      .group = tensor->block};
  if (!import_ok(op->im)) return NULL;
  value *out = coded_constant(op->im, &source);
  if (!out) import_unsupported(op->im, "blocks of %lld codes", (long long)tensor->block);
  return out;
}

value *tflite_weight(operation *op, int i, const int *order, bool *encoded) {
  operand *x = tflite_operand(op, i);
  if (encoded) *encoded = false;
  if (!x) {
    import_invalid(op->im, "the weight is missing");
    return NULL;
  }
  value *stored = tflite_in_layout(op->im, x, LAST);
  if (!stored || !import_ok(op->im)) return NULL;
  if (x->block) return block_weight(op, x, stored);
  if (tflite_is_quantized(x) && stored->data) (void)channel_stride(op->im, x, stored);
  const bool keeps = keeps_weight_codes(x, stored, order);
  if (!keeps && tflite_is_quantized(x)) stored = tflite_dequantized(op->im, x, stored);
  value *out = tflite_permuted(op->im, stored, order);
  if (encoded) *encoded = keeps;
  return keeps && out ? encoded_weight(op, x, out) : out;
}

value *tflite_bias(operation *op, int i, int x_at, int weight_at) {
  importer *im = op->im;
  operand *bias = tflite_operand(op, i);
  const operand *x = tflite_operand(op, x_at), *weight = tflite_operand(op, weight_at);
  if (!bias || !x || !weight) return NULL;
  value *stored = tflite_in_layout(im, bias, LAST);
  if (!stored || dtype_is_float((dtype)stored->type)) return stored;
  const int64_t n = value_count(stored);
  const flat_vector scales = operand_scales(weight);
  if (!stored->data || (stored->type != CLAVE_I32 && stored->type != CLAVE_I64) ||
      x->n_scales != 1 || weight->n_scales < 1 ||
      (weight->n_scales != 1 && weight->n_scales != n)) {
    import_unsupported(im, "a bias of dtype %s", tflite_dtype_name(bias->type));
    return NULL;
  }
  float *numbers = import_alloc(im, (size_t)n + 1, sizeof *numbers);
  for (int64_t k = 0; numbers && k < n; k++) {
    const double scale = flat_float_at(&scales, weight->n_scales == 1 ? 0 : (uint32_t)k);
    numbers[k] = (float)((double)code_at(stored, k) * scale * (double)x->scale);
  }
  return number_constant(im, stored, numbers);
}

/* ---------------------------------------------------------------- operators */

/* The result is F32. Constants of 16-bit floats are converted at import. */
void tflite_dequantize_op(operation *op) {
  operand *x = tflite_operand(op, 0);
  value *stored = tflite_required(op, 0);
  if (!stored) return;
  if (tflite_is_quantized(x))
    tflite_set(op, 0, tflite_dequantized(op->im, x, stored));
  else if (!dtype_is_float((dtype)stored->type))
    import_unsupported(op->im, "an input of dtype %s without a scale", tflite_dtype_name(x->type));
  else if (stored->data && clave_dtype_size(stored->type) == 2)
    tflite_set(op, 0, half_to_float(op->im, stored));
  else
    tflite_set(op, 0, emit_cast(op->im, stored, CLAVE_F32));
}

/* Codes of another scale, zero or sign, or of numbers. */
void tflite_quantize_op(operation *op) {
  operand *x = tflite_operand(op, 0), *out = tflite_result(op, 0);
  value *stored = tflite_required(op, 0);
  if (!stored || !out) return;
  if (tflite_is_quantized(x)) stored = tflite_dequantized(op->im, x, stored);
  if (tflite_is_quantized(out))
    tflite_set(op, 0, tflite_quantized(op, out, stored));
  else
    import_unsupported(op->im, "a result of dtype %s without a scale",
                       tflite_dtype_name(out->type));
}
