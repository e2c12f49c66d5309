/* Folds inference batch norms into the preceding convolution, transposed convolution or matrix
 * product, if only the norm reads its result. With scale = weight / sqrt(var + eps) per channel,
 * the new weights are weights * scale and the new bias is (bias - mean) * scale + the norm's bias.
 * For encoded weights, the scales of their groups are multiplied by `scale`.
 *
 * Only f32 and f64 match: folding rounds each weight once more, while a 16-bit module rounds the
 * convolution's result, and a scale may exceed the range of f16. A weight with other readers is not
 * changed, because both versions would have to be stored. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "interp/passes/passes.h"

/* The op before a norm. Element i of its weight, in the order of the constant, belongs to channel i
 * / inner % per_group + i / group * per_group. */
typedef struct producer {
  draft_node *node;
  uint32_t weight, bias; /* operands; bias: IR_NONE if absent */
  uint32_t constant;     /* the constant that the weight views */
  uint32_t shape_of;     /* slot that defines the new constant's shape */
  bool is_transposed;    /* the weight is the transpose of shape_of */
  bool is_encoded;       /* the constant is encoded, and its rows are the channels */
  double beta;           /* factor of the bias */
  int64_t channels, inner, per_group, group;
} producer;

/* ---------------------------------------------------------------- finding */

static int64_t fixed_numel(const draft *draft, uint32_t tid) {
  tensor tensor;
  return draft_fixed(draft, tid, &tensor) ? tensor_numel(&tensor) : -1;
}

static bool batch_norm_has_bytes(const draft *draft, uint32_t constant) {
  return constant != IR_NONE && draft->slots[constant].data &&
         !draft->slots[constant].tensor.encoding;
}

/* Finds the weight's constant and how channels are laid out in it. */
static bool batch_norm_match_weight(const draft *draft, producer *producer, uint32_t shape_of,
                                    int channel_axis, int64_t groups) {
  tensor tensor;
  producer->shape_of = shape_of;
  producer->constant = constant_origin(draft, shape_of);
  if (!batch_norm_has_bytes(draft, producer->constant) || !draft_fixed(draft, shape_of, &tensor))
    return false;
  int64_t n = tensor_numel(&tensor);
  producer->per_group = tensor.dims[channel_axis];
  producer->group = n / groups;
  producer->inner = tensor.strides[channel_axis];
  producer->channels = producer->per_group * groups;
  return n > 0;
}

static bool batch_norm_match_codes(const draft *draft, producer *producer, uint32_t constant) {
  tensor tensor;
  if (constant >= draft->from->ir.constants.count || !draft->slots[constant].data) return false;
  const encoding *encoding = &draft->from->types[constant].encoding;
  if (encoding->kind != ENCODING_GROUPS || encoding->axis != 1 ||
      !draft_fixed(draft, constant, &tensor))
    return false;
  producer->constant = producer->shape_of = constant;
  producer->channels = tensor.dims[0];
  producer->is_encoded = true;
  return tensor_numel(&tensor) > 0;
}

static bool match_conv(const draft *draft, producer *producer) {
  const ir_conv *op = producer->node->ins.op;
  const uint32_t codes = draft_codes(draft, op->weight);
  producer->weight = op->weight;
  producer->bias = op->bias;
  return codes != IR_NONE ? batch_norm_match_codes(draft, producer, codes)
                          : batch_norm_match_weight(draft, producer, op->weight, 0, 1);
}

static bool match_conv_transpose(const draft *draft, producer *producer) {
  const ir_conv_transpose *op = producer->node->ins.op;
  producer->weight = op->weight;
  producer->bias = op->bias;
  return batch_norm_match_weight(draft, producer, op->weight, 1, op->groups);
}

/* Matches a product (N, C) whose columns are the channels. */
static bool match_matmul(const draft *draft, producer *producer) {
  const ir_matmul *op = producer->node->ins.op;
  const ir_permute *permute = draft_op(draft, op->b, IR_OP_PERMUTE);
  if (draft_rank(draft, op->out) != 2) return false;
  producer->weight = op->b;
  producer->bias = op->bias;
  producer->beta = op->beta;
  if (op->b_transposed) return batch_norm_match_codes(draft, producer, op->b);
  producer->is_transposed = permute && permute->dims.items[0] != 0 && permute->dims.items[0] != -2;
  return batch_norm_match_weight(draft, producer, producer->is_transposed ? permute->x : op->b,
                                 producer->is_transposed ? 0 : 1, 1);
}

/* True if a parameter is absent or a constant with an element per channel. */
static bool is_vector(const draft *draft, uint32_t tid, int64_t n) {
  double number;
  if (tid == IR_NONE) return true;
  return draft_rank(draft, tid) > 0 && fixed_numel(draft, tid) == n &&
         size_is(draft_size(draft, tid, -1), n) &&
         (batch_norm_has_bytes(draft, constant_origin(draft, tid)) ||
          uniform_value(draft, tid, &number));
}

/* Finds the op that writes the norm's x. False if x has other readers or parameters vary. */
static bool find_producer(const draft *draft, const ir_batch_norm *norm, producer *source) {
  draft_node *node = draft->slots[norm->x].writer;
  bool found = false;
  *source = (producer){.node = node, .beta = 1};
  if (!node || draft->slots[norm->x].n_readers != 1 || draft->slots[norm->x].kept) return false;
  if (node->ins.op_type == IR_OP_CONV) found = match_conv(draft, source);
  if (node->ins.op_type == IR_OP_CONV_TRANSPOSE) found = match_conv_transpose(draft, source);
  if (node->ins.op_type == IR_OP_MATMUL) found = match_matmul(draft, source);
  return found && is_vector(draft, source->bias, source->channels) &&
         is_vector(draft, norm->mean, source->channels) &&
         is_vector(draft, norm->var, source->channels) &&
         is_vector(draft, norm->weight, source->channels) &&
         is_vector(draft, norm->bias, source->channels);
}

static bool same_norm(const ir_batch_norm *left, const ir_batch_norm *right) {
  return left->mean == right->mean && left->var == right->var && left->weight == right->weight &&
         left->bias == right->bias && left->eps == right->eps;
}

/* True if the reader of this node's result folds the same norm into it. */
static bool folds_too(const draft *draft, const draft_node *node, const ir_batch_norm *norm,
                      uint32_t constant) {
  producer producer;
  uint32_t out = result_of(node);
  const draft_slot *slot = out == IR_NONE ? NULL : &draft->slots[out];
  if (!slot || slot->n_readers != 1 || slot->readers[0]->ins.op_type != IR_OP_BATCH_NORM ||
      slot->readers[0]->chain != node->chain)
    return false;
  const ir_batch_norm *other = slot->readers[0]->ins.op;
  return other->x == out && same_norm(norm, other) && find_producer(draft, other, &producer) &&
         producer.constant == constant;
}

/* True if all readers of the weight, also through views, fold the same norm. */
static bool all_fold(const draft *draft, uint32_t tid, const ir_batch_norm *norm,
                     uint32_t constant) {
  const draft_slot *slot = &draft->slots[tid];
  bool all = !slot->kept;
  for (uint32_t i = 0; i < slot->n_readers && all; i++) {
    const draft_node *node = slot->readers[i];
    ir_op op = node->ins.op_type;
    bool is_view =
        op == IR_OP_COPY || op == IR_OP_RESHAPE || op == IR_OP_PERMUTE || op == IR_OP_DEQUANTIZE;
    all = is_view ? all_fold(draft, result_of(node), norm, constant)
                  : folds_too(draft, node, norm, constant);
  }
  return all;
}

/* ---------------------------------------------------------------- computing */

/* Returns element i of a parameter; `absent` if the parameter is absent. */
static double vector_element(const draft *draft, uint32_t tid, int64_t i, double absent) {
  double number = absent;
  if (tid == IR_NONE) return absent;
  uint32_t c = constant_origin(draft, tid);
  if (c != IR_NONE) return element_of(draft_type(draft, c), draft->slots[c].data, i);
  (void)uniform_value(draft, tid, &number);
  return number;
}

/* Stores a number. Returns false if it is not finite in this dtype. */
static bool batch_norm_put(dtype t, void *to, int64_t i, double x) {
  if (t == DTYPE_F64) {
    ((double *)to)[i] = x;
    return isfinite(x);
  }
  ((float *)to)[i] = (float)x;
  return isfinite(((float *)to)[i]);
}

static bool scale_bias(const draft *draft, const producer *producer, const ir_batch_norm *norm,
                       double *scale, void *bias) {
  bool good = true;
  dtype t = draft_type(draft, norm->out);
  for (int64_t c = 0; c < producer->channels; c++) {
    double var = vector_element(draft, norm->var, c, 1),
           mean = vector_element(draft, norm->mean, c, 0),
           before = producer->bias == IR_NONE
                        ? 0
                        : producer->beta * vector_element(draft, producer->bias, c, 0);
    scale[c] = vector_element(draft, norm->weight, c, 1) / sqrt(var + norm->eps);
    double after = (before - mean) * scale[c] + vector_element(draft, norm->bias, c, 0);
    good = batch_norm_put(t, bias, c, after) && good;
  }
  return good;
}

static bool scale_weight(const draft *draft, const producer *producer, const double *scale,
                         void *weight) {
  bool good = true;
  dtype t = draft_type(draft, producer->constant);
  const void *from = draft->slots[producer->constant].data;
  int64_t n = fixed_numel(draft, producer->shape_of);
  for (int64_t i = 0; i < n; i++) {
    int64_t channel =
        i / producer->inner % producer->per_group + i / producer->group * producer->per_group;
    good = batch_norm_put(t, weight, i, element_of(t, from, i) * scale[channel]) && good;
  }
  return good;
}

static uint32_t batch_norm_add_scaled(draft *draft, const producer *producer, const double *scale) {
  const ir_int_or_vids *shape = &draft->slots[producer->shape_of].tensor.shape;
  dtype t = draft_type(draft, producer->constant);
  void *weights = calloc((size_t)fixed_numel(draft, producer->shape_of) + 1, dtype_size(t));
  uint32_t made = IR_NONE;
  if (!weights) draft->no_memory = true;
  if (weights && scale_weight(draft, producer, scale, weights))
    made = draft_constant(draft, t, shape->items, (int)shape->count, producer->node->ins.name,
                          weights);
  free(weights);
  return made;
}

/* Scales a stored number. Returns false if the result is not finite in its dtype. */
static bool scale_number(dtype t, unsigned char *at, double factor) {
  float f;
  uint16_t h;
  memcpy(&f, at, sizeof f);
  memcpy(&h, at, sizeof h);
  f = (float)((t == DTYPE_F32 ? f : t == DTYPE_F16 ? f16_to_f32(h) : bf16_to_f32(h)) * factor);
  h = t == DTYPE_F16 ? f32_to_f16(f) : f32_to_bf16(f);
  memcpy(at, t == DTYPE_F32 ? (const void *)&f : &h, dtype_size(t));
  return isfinite(t == DTYPE_F32 ? f : t == DTYPE_F16 ? f16_to_f32(h) : bf16_to_f32(h));
}

/* Scales the rows of an encoded weight, which store scales after codes (base/encoding.h). */
static bool scale_rows(const encoding *encoding, int64_t elements, int64_t rows,
                       const double *scale, unsigned char *data) {
  const size_t row = encoding_row_bytes(encoding, elements), width = dtype_size(encoding->scale);
  const int64_t groups = encoding_groups(encoding, elements);
  bool good = true;
  for (int64_t r = 0; r < rows; r++) {
    unsigned char *at = data + (size_t)r * row + encoding_code_bytes(encoding, elements);
    for (int64_t g = 0; g < groups; g++)
      good = scale_number(encoding->scale, at + (size_t)g * width, scale[r]) && good;
  }
  return good;
}

/* Adds a constant with the same codes and other scales. */
static uint32_t add_scaled_codes(draft *draft, const producer *producer, const double *scale) {
  const tensor *tensor = &draft->from->types[producer->constant];
  const int64_t rows = tensor_rows(tensor), elements = tensor_row(tensor);
  const size_t bytes = encoding_row_bytes(&tensor->encoding, elements) * (size_t)rows;
  ir_tensor declared = draft->slots[producer->constant].tensor;
  void *memory;
  declared.name = producer->node->ins.name;
  uint32_t made = draft_constant_reserve(draft, &declared, bytes, &memory);
  if (made == IR_NONE) return IR_NONE;
  memcpy(memory, draft->slots[producer->constant].data, bytes);
  return scale_rows(&tensor->encoding, elements, rows, scale, memory) ? made : IR_NONE;
}

/* Adds the new weight and bias as constants. */
static bool fold(draft *draft, const producer *producer, const ir_batch_norm *norm,
                 uint32_t *weight, uint32_t *bias) {
  dtype t = draft_type(draft, norm->out);
  const ir_int_or_vid n = literal_size(producer->channels);
  double *scale = calloc((size_t)producer->channels + 1, sizeof *scale);
  void *right = calloc((size_t)producer->channels + 1, dtype_size(t));
  if (!scale || !right) draft->no_memory = true;
  bool good = !draft->no_memory && scale_bias(draft, producer, norm, scale, right);
  if (good)
    *weight = producer->is_encoded ? add_scaled_codes(draft, producer, scale)
                                   : batch_norm_add_scaled(draft, producer, scale);
  good = good && *weight != IR_NONE;
  if (good) *bias = draft_constant(draft, t, &n, 1, producer->node->ins.name, right);
  free(scale);
  free(right);
  return good && !draft->no_memory;
}

/* ---------------------------------------------------------------- replacing */

static uint32_t add_decoded(draft *draft, const producer *producer, uint32_t codes) {
  uint32_t out = draft_slot_like(draft, producer->weight, producer->node->ins.name);
  ir_dequantize *op = draft_add(draft, producer->node, IR_OP_DEQUANTIZE);
  *op = (ir_dequantize){.x = codes, .out = out};
  draft_note(draft, producer->node);
  return out;
}

/* Adds the op with the new constants. name: the norm's name, because the op computes its result. */
static uint32_t batch_norm_add_product(draft *draft, const producer *producer, uint32_t weight,
                                       uint32_t bias, const char *name) {
  const void *from = producer->node->ins.op;
  if (producer->is_encoded && producer->weight != producer->constant)
    weight = add_decoded(draft, producer, weight);
  uint32_t out = draft_slot_like(draft, result_of(producer->node), name);
  if (producer->is_transposed)
    weight = draft_permute(draft, producer->node, weight, (const int[]){1, 0});
  void *op =
      draft_insert(draft, producer->node->chain, producer->node, name, producer->node->ins.op_type);
  if (producer->node->ins.op_type == IR_OP_CONV) {
    *(ir_conv *)op = *(const ir_conv *)from;
    ((ir_conv *)op)->weight = weight;
    ((ir_conv *)op)->bias = bias;
    ((ir_conv *)op)->out = out;
  } else if (producer->node->ins.op_type == IR_OP_CONV_TRANSPOSE) {
    *(ir_conv_transpose *)op = *(const ir_conv_transpose *)from;
    ((ir_conv_transpose *)op)->weight = weight;
    ((ir_conv_transpose *)op)->bias = bias;
    ((ir_conv_transpose *)op)->out = out;
  } else {
    *(ir_matmul *)op = (ir_matmul){.a = ((const ir_matmul *)from)->a,
                                   .b = weight,
                                   .bias = bias,
                                   .alpha = ((const ir_matmul *)from)->alpha,
                                   .beta = 1,
                                   .b_transposed = producer->is_encoded,
                                   .out = out};
  }
  draft_note(draft, producer->node);
  return out;
}

/* Matches a BatchNorm with fixed statistics; Ioffe and Szegedy,
 * https://arxiv.org/abs/1502.03167. */
bool find_batch_norm(match *match, uint32_t *out) {
  producer producer;
  uint32_t weight, bias;
  const ir_batch_norm *norm = match->root->ins.op;
  if (match->root->ins.op_type != IR_OP_BATCH_NORM) return false;
  if (match->type != DTYPE_F32 && match->type != DTYPE_F64) return false;
  if (!find_producer(match->draft, norm, &producer) || !match_covers(match, producer.node) ||
      !match_is_closed(match) || draft_type(match->draft, producer.constant) != match->type ||
      !all_fold(match->draft, producer.constant, norm, producer.constant))
    return false;
  if (!fold(match->draft, &producer, norm, &weight, &bias)) return false;
  *out = batch_norm_add_product(match->draft, &producer, weight, bias, match->root->ins.name);
  return true;
}
