/* Batch norms of inference, folded into the convolution, transposed convolution or matrix product
 * that alone is read by one: with scale = weight / sqrt(var + eps) of each channel, its weights
 * become weights * scale, its bias (bias - mean) * scale + the norm's bias. Of weights that are
 * codes in groups, the groups' scales are multiplied.
 *
 * Only f32 and f64 match: each weight is rounded once more, where a 16-bit module rounds the
 * convolution's result, and a scale may leave the range of f16. A weight that something else reads
 * stays as it is, so that no two versions of one are kept. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "interp/passes/passes.h"

/* What is before a norm. Element i of the weight, in the constant's order, belongs to channel
 * i / inner % per_group + i / group * per_group. */
typedef struct producer {
  draft_node *node;
  uint32_t weight, bias; /* operands; bias: IR_NONE if absent */
  uint32_t constant;     /* what the weight is behind views */
  uint32_t shape_of;     /* the slot whose shape the new constant gets */
  bool is_turned;        /* the weight is a Permute of shape_of */
  bool is_encoded;       /* the constant's rows, as codes, are the channels */
  double beta;           /* of the bias */
  int64_t channels, inner, per_group, group;
} producer;

/* ---------------------------------------------------------------- finding */

static int64_t fixed_numel(const draft *d, uint32_t tid) {
  tensor t;
  return draft_fixed(d, tid, &t) ? tensor_numel(&t) : -1;
}

static bool has_bytes(const draft *d, uint32_t constant) {
  return constant != IR_NONE && d->slots[constant].data && !d->slots[constant].t.encoding;
}

/* The weight's constant, and over how many elements a channel lies. */
static bool take_weight(const draft *d, producer *p, uint32_t shape_of, int channel_axis,
                        int64_t groups) {
  tensor t;
  p->shape_of = shape_of;
  p->constant = constant_behind(d, shape_of);
  if (!has_bytes(d, p->constant) || !draft_fixed(d, shape_of, &t)) return false;
  int64_t n = tensor_numel(&t);
  p->per_group = t.dims[channel_axis];
  p->group = n / groups;
  p->inner = t.strides[channel_axis];
  p->channels = p->per_group * groups;
  return n > 0;
}

static bool take_codes(const draft *d, producer *p, uint32_t constant) {
  tensor t;
  if (constant >= d->from->ir.constants.count || !d->slots[constant].data) return false;
  const encoding *e = &d->from->types[constant].encoding;
  if (e->kind != ENCODING_GROUPS || e->axis != 1 || !draft_fixed(d, constant, &t)) return false;
  p->constant = p->shape_of = constant;
  p->channels = t.dims[0];
  p->is_encoded = true;
  return tensor_numel(&t) > 0;
}

static bool take_conv(const draft *d, producer *p) {
  const ir_conv *o = p->node->ins.op;
  const uint32_t codes = draft_codes(d, o->weight);
  p->weight = o->weight;
  p->bias = o->bias;
  return codes != IR_NONE ? take_codes(d, p, codes) : take_weight(d, p, o->weight, 0, 1);
}

static bool take_conv_transpose(const draft *d, producer *p) {
  const ir_conv_transpose *o = p->node->ins.op;
  p->weight = o->weight;
  p->bias = o->bias;
  return take_weight(d, p, o->weight, 1, o->groups);
}

/* A product (N, C), whose columns are the channels. */
static bool take_matmul(const draft *d, producer *p) {
  const ir_matmul *o = p->node->ins.op;
  const ir_permute *turned = draft_op(d, o->b, IR_OP_PERMUTE);
  if (draft_rank(d, o->out) != 2) return false;
  p->weight = o->b;
  p->bias = o->bias;
  p->beta = o->beta;
  if (o->b_transposed) return take_codes(d, p, o->b);
  p->is_turned = turned && turned->dims.items[0] != 0 && turned->dims.items[0] != -2;
  return take_weight(d, p, p->is_turned ? turned->x : o->b, p->is_turned ? 0 : 1, 1);
}

/* The norm's and the product's own parameters: constants with an element for each channel. */
static bool is_vector(const draft *d, uint32_t tid, int64_t n) {
  double number;
  if (tid == IR_NONE) return true;
  return draft_rank(d, tid) > 0 && fixed_numel(d, tid) == n && size_is(draft_size(d, tid, -1), n) &&
         (has_bytes(d, constant_behind(d, tid)) || uniform_value(d, tid, &number));
}

/* What writes the norm's x, if the norm alone reads it and all parameters are constants. */
static bool find_producer(const draft *d, const ir_batch_norm *norm, producer *p) {
  draft_node *n = d->slots[norm->x].writer;
  bool found = false;
  *p = (producer){.node = n, .beta = 1};
  if (!n || d->slots[norm->x].n_readers != 1 || d->slots[norm->x].kept) return false;
  if (n->ins.op_type == IR_OP_CONV) found = take_conv(d, p);
  if (n->ins.op_type == IR_OP_CONV_TRANSPOSE) found = take_conv_transpose(d, p);
  if (n->ins.op_type == IR_OP_MATMUL) found = take_matmul(d, p);
  return found && is_vector(d, p->bias, p->channels) && is_vector(d, norm->mean, p->channels) &&
         is_vector(d, norm->var, p->channels) && is_vector(d, norm->weight, p->channels) &&
         is_vector(d, norm->bias, p->channels);
}

static bool same_norm(const ir_batch_norm *a, const ir_batch_norm *b) {
  return a->mean == b->mean && a->var == b->var && a->weight == b->weight && a->bias == b->bias &&
         a->eps == b->eps;
}

/* Does what reads this node's result fold the same norm into it? */
static bool folds_too(const draft *d, const draft_node *n, const ir_batch_norm *norm,
                      uint32_t constant) {
  producer p;
  uint32_t out = result_of(n);
  const draft_slot *s = out == IR_NONE ? NULL : &d->slots[out];
  if (!s || s->n_readers != 1 || s->readers[0]->ins.op_type != IR_OP_BATCH_NORM ||
      s->readers[0]->chain != n->chain)
    return false;
  const ir_batch_norm *other = s->readers[0]->ins.op;
  return other->x == out && same_norm(norm, other) && find_producer(d, other, &p) &&
         p.constant == constant;
}

/* Does everything that reads the weight, also behind views, fold the same norm? */
static bool all_fold(const draft *d, uint32_t tid, const ir_batch_norm *norm, uint32_t constant) {
  const draft_slot *s = &d->slots[tid];
  bool all = !s->kept;
  for (uint32_t i = 0; i < s->n_readers && all; i++) {
    const draft_node *n = s->readers[i];
    ir_op op = n->ins.op_type;
    bool is_view =
        op == IR_OP_COPY || op == IR_OP_RESHAPE || op == IR_OP_PERMUTE || op == IR_OP_DEQUANTIZE;
    all = is_view ? all_fold(d, result_of(n), norm, constant) : folds_too(d, n, norm, constant);
  }
  return all;
}

/* ---------------------------------------------------------------- computing */

/* Element i of a parameter; one that is absent is `absent` everywhere. */
static double vector_element(const draft *d, uint32_t tid, int64_t i, double absent) {
  double number = absent;
  if (tid == IR_NONE) return absent;
  uint32_t c = constant_behind(d, tid);
  if (c != IR_NONE) return element_of(draft_type(d, c), d->slots[c].data, i);
  (void)uniform_value(d, tid, &number);
  return number;
}

/* False: it is no finite number there. */
static bool put(dtype t, void *to, int64_t i, double x) {
  if (t == DTYPE_F64) {
    ((double *)to)[i] = x;
    return isfinite(x);
  }
  ((float *)to)[i] = (float)x;
  return isfinite(((float *)to)[i]);
}

static bool scale_bias(const draft *d, const producer *p, const ir_batch_norm *norm, double *scale,
                       void *bias) {
  bool good = true;
  dtype t = draft_type(d, norm->out);
  for (int64_t c = 0; c < p->channels; c++) {
    double var = vector_element(d, norm->var, c, 1), mean = vector_element(d, norm->mean, c, 0),
           before = p->bias == IR_NONE ? 0 : p->beta * vector_element(d, p->bias, c, 0);
    scale[c] = vector_element(d, norm->weight, c, 1) / sqrt(var + norm->eps);
    double after = (before - mean) * scale[c] + vector_element(d, norm->bias, c, 0);
    good = put(t, bias, c, after) && good;
  }
  return good;
}

static bool scale_weight(const draft *d, const producer *p, const double *scale, void *weight) {
  bool good = true;
  dtype t = draft_type(d, p->constant);
  const void *from = d->slots[p->constant].data;
  int64_t n = fixed_numel(d, p->shape_of);
  for (int64_t i = 0; i < n; i++) {
    int64_t channel = i / p->inner % p->per_group + i / p->group * p->per_group;
    good = put(t, weight, i, element_of(t, from, i) * scale[channel]) && good;
  }
  return good;
}

static uint32_t add_scaled(draft *d, const producer *p, const double *scale) {
  const ir_int_or_vids *shape = &d->slots[p->shape_of].t.shape;
  dtype t = draft_type(d, p->constant);
  void *w = calloc((size_t)fixed_numel(d, p->shape_of) + 1, dtype_size(t));
  uint32_t made = IR_NONE;
  if (!w) d->no_memory = true;
  if (w && scale_weight(d, p, scale, w))
    made = draft_constant(d, t, shape->items, (int)shape->count, p->node->ins.name, w);
  free(w);
  return made;
}

/* False: it is no finite number in that dtype. */
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

/* As base/encoding.h has a row: its scales are behind its codes. */
static bool scale_rows(const encoding *e, int64_t elements, int64_t rows, const double *scale,
                       unsigned char *data) {
  const size_t row = encoding_row_bytes(e, elements), width = dtype_size(e->scale);
  const int64_t groups = encoding_groups(e, elements);
  bool good = true;
  for (int64_t r = 0; r < rows; r++) {
    unsigned char *at = data + (size_t)r * row + encoding_code_bytes(e, elements);
    for (int64_t g = 0; g < groups; g++)
      good = scale_number(e->scale, at + (size_t)g * width, scale[r]) && good;
  }
  return good;
}

/* The same codes with other scales. */
static uint32_t add_scaled_codes(draft *d, const producer *p, const double *scale) {
  const tensor *t = &d->from->types[p->constant];
  const int64_t rows = tensor_rows(t), elements = tensor_row(t);
  const size_t bytes = encoding_row_bytes(&t->encoding, elements) * (size_t)rows;
  ir_tensor declared = d->slots[p->constant].t;
  void *room;
  declared.name = p->node->ins.name;
  uint32_t made = draft_constant_room(d, &declared, bytes, &room);
  if (made == IR_NONE) return IR_NONE;
  memcpy(room, d->slots[p->constant].data, bytes);
  return scale_rows(&t->encoding, elements, rows, scale, room) ? made : IR_NONE;
}

/* The new weight and bias as constants. */
static bool fold(draft *d, const producer *p, const ir_batch_norm *norm, uint32_t *weight,
                 uint32_t *bias) {
  dtype t = draft_type(d, norm->out);
  const ir_int_or_vid n = literal_size(p->channels);
  double *scale = calloc((size_t)p->channels + 1, sizeof *scale);
  void *b = calloc((size_t)p->channels + 1, dtype_size(t));
  if (!scale || !b) d->no_memory = true;
  bool good = !d->no_memory && scale_bias(d, p, norm, scale, b);
  if (good) *weight = p->is_encoded ? add_scaled_codes(d, p, scale) : add_scaled(d, p, scale);
  good = good && *weight != IR_NONE;
  if (good) *bias = draft_constant(d, t, &n, 1, p->node->ins.name, b);
  free(scale);
  free(b);
  return good && !d->no_memory;
}

/* ---------------------------------------------------------------- replacing */

static uint32_t add_decoded(draft *d, const producer *p, uint32_t codes) {
  uint32_t out = draft_slot_like(d, p->weight, p->node->ins.name);
  ir_dequantize *o = draft_add(d, p->node, IR_OP_DEQUANTIZE);
  *o = (ir_dequantize){.x = codes, .out = out};
  draft_note(d, p->node);
  return out;
}

/* name: the norm's, whose result it gives. */
static uint32_t add_product(draft *d, const producer *p, uint32_t weight, uint32_t bias,
                            const char *name) {
  const void *from = p->node->ins.op;
  if (p->is_encoded && p->weight != p->constant) weight = add_decoded(d, p, weight);
  uint32_t out = draft_slot_like(d, result_of(p->node), name);
  if (p->is_turned) weight = draft_permute(d, p->node, weight, (const int[]){1, 0});
  void *o = draft_insert(d, p->node->chain, p->node, name, p->node->ins.op_type);
  if (p->node->ins.op_type == IR_OP_CONV) {
    *(ir_conv *)o = *(const ir_conv *)from;
    ((ir_conv *)o)->weight = weight;
    ((ir_conv *)o)->bias = bias;
    ((ir_conv *)o)->out = out;
  } else if (p->node->ins.op_type == IR_OP_CONV_TRANSPOSE) {
    *(ir_conv_transpose *)o = *(const ir_conv_transpose *)from;
    ((ir_conv_transpose *)o)->weight = weight;
    ((ir_conv_transpose *)o)->bias = bias;
    ((ir_conv_transpose *)o)->out = out;
  } else {
    *(ir_matmul *)o = (ir_matmul){.a = ((const ir_matmul *)from)->a,
                                  .b = weight,
                                  .bias = bias,
                                  .alpha = ((const ir_matmul *)from)->alpha,
                                  .beta = 1,
                                  .b_transposed = p->is_encoded,
                                  .out = out};
  }
  draft_note(d, p->node);
  return out;
}

/* Ioffe and Szegedy, https://arxiv.org/abs/1502.03167, with the statistics of training. */
bool find_batch_norm(match *m, uint32_t *out) {
  producer p;
  uint32_t weight, bias;
  const ir_batch_norm *norm = m->root->ins.op;
  if (m->root->ins.op_type != IR_OP_BATCH_NORM) return false;
  if (m->type != DTYPE_F32 && m->type != DTYPE_F64) return false;
  if (!find_producer(m->d, norm, &p) || !match_covers(m, p.node) || !match_is_closed(m) ||
      draft_type(m->d, p.constant) != m->type || !all_fold(m->d, p.constant, norm, p.constant))
    return false;
  if (!fold(m->d, &p, norm, &weight, &bias)) return false;
  *out = add_product(m->d, &p, weight, bias, m->root->ins.name);
  return true;
}
