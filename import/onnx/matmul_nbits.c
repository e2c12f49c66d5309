/* Products with weights of few bits, of com.microsoft: MatMulNBits, MatMulBnb4 and
 * GatherBlockQuantized. Weights and their scales must be constants. */
#include <string.h>

#include "base/dtype.h"
#include "import/onnx/converters.h"
#include "import/onnx/nbits.h"
#include "import/onnx/quantize.h"

/* ---------------------------------------------------------------- MatMulNBits */

static bool nbits_sizes(node *node, nbits *out) {
  out->bits = (int)node_int(node, "bits", 4);
  out->n = node_int(node, "N", 0);
  out->k = node_int(node, "K", 0);
  out->block = node_int(node, "block_size", 0);
  (void)node_int(node, "accuracy_level", 0);
  if (node_int(node, "weight_prepacked", 0)) import_unsupported(node->im, "a prepacked weight");
  if (out->bits != 2 && out->bits != 4 && out->bits != 8)
    import_unsupported(node->im, "%d bits (2, 4 or 8)", out->bits);
  if (out->n < 1 || out->k < 1 || out->n > INT32_MAX || out->k > INT32_MAX)
    import_invalid(node->im, "K is %lld, N is %lld", (long long)out->k, (long long)out->n);
  if (out->block < 16 || out->block > INT32_MAX / 2 || (out->block & (out->block - 1)))
    import_invalid(node->im, "block_size is %lld", (long long)out->block);
  if (!import_ok(node->im)) return false;
  out->blocks = (out->k + out->block - 1) / out->block;
  return true;
}

static bool nbits_weight(node *node, nbits *out) {
  const value *codes = node_required(node, 1), *scales = node_required(node, 2),
              *zeros = node_input(node, 3);
  if (!codes || !scales || !nbits_sizes(node, out)) return false;
  out->type = scales->type;
  if (codes->type != CLAVE_U8) import_unsupported(node->im, "a weight that is not U8");
  if (out->type != CLAVE_F32 && out->type != CLAVE_F16 && out->type != CLAVE_BF16)
    import_unsupported(node->im, "scales of dtype %s", clave_dtype_name(out->type));
  out->codes = nbits_constant(node, 1, out->n * (out->blocks * out->block / 8 * out->bits));
  out->scales = nbits_constant(node, 2, out->n * out->blocks);
  if (zeros && zeros->type == CLAVE_U8)
    out->zeros = nbits_constant(node, 3, out->n * ((out->blocks * out->bits + 7) / 8));
  else if (zeros && zeros->type == out->type)
    out->wide_zeros = nbits_constant(node, 3, out->n * out->blocks);
  else if (zeros)
    import_unsupported(node->im, "zero points of another dtype than the scales");
  return import_ok(node->im);
}

/* Returns the groups (K) of the inputs if they are not those of consecutive blocks; else NULL. */
static const int32_t *nbits_groups(node *node, const nbits *weight) {
  value *groups = node_input(node, 4);
  const int64_t n = groups ? value_count(groups) : 0;
  const int32_t *index = groups ? (const int32_t *)(const void *)nbits_constant(node, 4, n) : NULL;
  bool plain = true;
  if (!index) return NULL;
  if (groups->type != CLAVE_I32 || n < weight->k) {
    import_invalid(node->im, "g_idx has %lld elements, expected %lld of I32", (long long)n,
                   (long long)weight->k);
    return NULL;
  }
  for (int64_t i = 0; i < weight->k; i++) {
    if (index[i] < 0 || index[i] >= weight->blocks)
      import_invalid(node->im, "g_idx is out of range");
    plain = plain && index[i] == i / weight->block;
  }
  return plain || !import_ok(node->im) ? NULL : index;
}

/* Decodes a weight whose groups are scattered, (N, K) in F32. */
static value *nbits_scattered(importer *im, const nbits *weight, const int32_t *groups) {
  const int64_t dims[] = {weight->n, weight->k};
  const int64_t row_bytes = weight->blocks * weight->block * weight->bits / 8;
  const size_t size = clave_dtype_size(weight->type);
  float *out = import_alloc(im, (size_t)(weight->n * weight->k), sizeof *out);
  for (int64_t r = 0; out && r < weight->n; r++) {
    for (int64_t i = 0; i < weight->k; i++) {
      const int64_t at = r * weight->blocks + groups[i];
      const double scale = element_number((dtype)weight->type, weight->scales + (size_t)at * size);
      const int code = nbits_code(weight->codes + r * row_bytes, i, weight->bits);
      out[r * weight->k + i] = ((float)code - nbits_zero(weight, r, groups[i])) * (float)scale;
    }
  }
  value *constant = out ? value_constant(im, "", CLAVE_F32, 2, dims, out) : NULL;
  return emit_cast(im, constant, weight->type);
}

/* a @ the transpose of weight (N, K) + bias */
static void set_product(node *node, value *left, value *weight, value *bias) {
  importer *im = node->im;
  if (!left || !weight) return;
  const bool row = left->rank == 1;
  if (row) left = emit_unsqueeze(im, left, 0);
  if (left && left->type != weight->type) weight = emit_cast(im, weight, left->type);
  value *out = emit_matmul(im, left, emit_transpose(im, weight, 0, 1), bias, 1, 1);
  node_set(node, 0, row ? emit_squeeze(im, out, 0) : out);
}

void onnx_matmul_nbits(node *node) {
  importer *im = node->im;
  nbits weight = {0};
  value *a = node_required(node, 0);
  if (!nbits_weight(node, &weight)) return;
  const int32_t *groups = nbits_groups(node, &weight);
  if (!a || !import_ok(im)) return;
  const int64_t dims[] = {weight.n, weight.k};
  value *rows = groups ? nbits_scattered(im, &weight, groups) : nbits_value(im, &weight, 2, dims);
  set_product(node, a, rows, node_input(node, 5));
}

/* ---------------------------------------------------------------- MatMulBnb4 */

/* The values of codes, as fractions of a block's greatest magnitude: FP4, then NF4. */
static const float bnb4_values[2][16] = {
    {0.0f, 0.005208333333f, 0.66666667f, 1.0f, 0.33333333f, 0.5f, 0.16666667f, 0.25f, 0.0f,
     -0.005208333333f, -0.66666667f, -1.0f, -0.33333333f, -0.5f, -0.16666667f, -0.25f},
    {-1.0f, -0.6961928009986877f, -0.5250730514526367f, -0.39491748809814453f,
     -0.28444138169288635f, -0.18477343022823334f, -0.09105003625154495f, 0.0f,
     0.07958029955625534f, 0.16093020141124725f, 0.24611230194568634f, 0.33791524171829224f,
     0.44070982933044434f, 0.5626170039176941f, 0.7229568362236023f, 1.0f},
};

/* The first code of a byte is in its high bits. */
void onnx_matmul_bnb4(node *node) {
  importer *im = node->im;
  value *a = node_required(node, 0), *scales = node_required(node, 2);
  const int64_t k = node_int(node, "K", 0), n = node_int(node, "N", 0),
                block = node_int(node, "block_size", 0), type = node_int(node, "quant_type", 0);
  const bool transposed = node_int(node, "transB", 1);
  (void)node_int(node, "training_mode", 0);
  if (k < 1 || n < 1 || k > INT32_MAX || n > INT32_MAX || block < 1 || block > INT32_MAX ||
      type < 0 || type > 1)
    import_invalid(im, "K, N, block_size or quant_type is out of range");
  if (!a || !scales || !import_ok(im)) return;
  const uint8_t *codes = nbits_constant(node, 1, (n * k + 1) / 2),
                *factors = nbits_constant(node, 2, (n * k + block - 1) / block);
  float *out = codes && factors ? import_alloc(im, (size_t)(n * k), sizeof *out) : NULL;
  const size_t size = clave_dtype_size(scales->type);
  for (int64_t i = 0; out && i < n * k; i++) {
    const double factor = element_number((dtype)scales->type, factors + (size_t)(i / block) * size);
    const int code = codes[i / 2] >> (i % 2 ? 0 : 4) & 15;
    out[i] = bnb4_values[type][code] * (float)factor;
  }
  const int64_t dims[] = {n, k};
  value *weight = out ? value_constant(im, "", CLAVE_F32, 2, dims, out) : NULL;
  if (transposed)
    set_product(node, a, weight, NULL);
  else
    import_unsupported(im, "transB = 0");
}

/* ---------------------------------------------------------------- GatherBlockQuantized */

/* Unpacks U8 bytes of several codes each along the last axis. */
static value *unpacked(node *node, value *input, int bits) {
  importer *im = node->im;
  if (!input || bits == 8 || input->rank < 1) return input;
  const uint8_t *bytes = value_is_constant(input) ? value_bytes(im, input) : NULL;
  const int64_t n = value_count(input), per_byte = 8 / bits;
  uint8_t *codes = bytes ? import_alloc(im, (size_t)(n * per_byte) + 1, 1) : NULL;
  if (!bytes) import_unsupported(im, "packed codes that are not constant");
  if (!codes) return NULL;
  for (int64_t i = 0; i < n * per_byte; i++) codes[i] = (uint8_t)nbits_code(bytes, i, bits);
  int64_t dims[CLAVE_MAX_RANK];
  for (int d = 0; d < input->rank; d++) dims[d] = input->dims[d].i;
  dims[input->rank - 1] *= per_byte;
  value *out = value_constant(im, "", CLAVE_U8, input->rank, dims, codes);
  if (out) out->bits = (uint8_t)bits;
  return out;
}

/* Makes zeros of half the number of codes, one for each scale. */
static value *middle_zeros(importer *im, const value *scale, int bits) {
  const int64_t n = value_count(scale);
  uint8_t *codes = n >= 0 ? import_alloc(im, (size_t)n + 1, 1) : NULL;
  value *out = codes ? value_new(im, CLAVE_U8, scale->rank, scale->dims) : NULL;
  if (!out) return NULL;
  memset(codes, 1 << (bits - 1), (size_t)n);
  out->data = codes;
  return out;
}

/* Selects codes, scales and zeros, and decodes them. */
static value *gather_then_decode(node *node, const coded_source *source, value *index, int axis) {
  importer *im = node->im;
  if (source->axis == axis) {
    import_unsupported(im, "gather_axis is quantize_axis");
    return NULL;
  }
  const int moved = source->axis > axis ? source->axis + index->rank - 1 : source->axis;
  quantized part = {emit_index_select(im, source->codes, axis, index),
                    emit_index_select(im, source->scale, axis, index),
                    source->zero ? emit_index_select(im, source->zero, axis, index) : NULL};
  if (!part.codes) return NULL;
  part.scale = onnx_spread(node, part.scale, part.codes, moved, source->group);
  part.zero = onnx_spread(node, part.zero, part.codes, moved, source->group);
  return emit_dequantize(im, &part);
}

void onnx_gather_block_quantized(node *node) {
  importer *im = node->im;
  coded_source source = {.codes = node_required(node, 0), .scale = node_required(node, 2)};
  value *index = node_required(node, 1);
  const int bits = (int)node_int(node, "bits", 4);
  const int64_t axis = node_int(node, "gather_axis", 0), along = node_int(node, "quantize_axis", 1);
  source.group = node_int(node, "block_size", 128);
  source.zero = node_input(node, 3);
  if (!source.codes || !source.scale || !index) return;
  if (source.codes->type != CLAVE_U8 && source.codes->type != CLAVE_I8)
    import_unsupported(im, "codes of dtype %s", clave_dtype_name(source.codes->type));
  if ((bits != 2 && bits != 4 && bits != 8) || source.group < 16)
    import_unsupported(im, "bits = %d, block_size = %lld", bits, (long long)source.group);
  const bool packed = source.codes->type == CLAVE_U8 && !source.codes->bits;
  if (!import_ok(im)) return;
  if (packed) {
    source.codes = unpacked(node, source.codes, bits);
    source.zero =
        source.zero ? unpacked(node, source.zero, bits) : middle_zeros(im, source.scale, bits);
  }
  if (!source.codes) return;
  const int at = emit_axis(im, axis, source.codes->rank);
  source.axis = emit_axis(im, along, source.codes->rank);
  if (!import_ok(im)) return;
  if (source.zero && source.zero != node_input(node, 3) && packed) /* bytes pad packed zeros */
    source.zero = emit_slice(im, source.zero, source.zero->rank - 1, number_int(0),
                             source.scale->dims[source.scale->rank - 1]);
  index = emit_wrap_index(im, index, source.codes->dims[at]);
  value *table = at == 0 && index ? coded_constant(im, &source) : NULL;
  node_set(node, 0,
           table && coded_rows(im, table, false) ? emit_index_select(im, table, 0, index)
                                                 : gather_then_decode(node, &source, index, at));
}
