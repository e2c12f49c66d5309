/* Convolutions and products of what was quantised: where x is (codes - zero) * scale, its codes of
 * 8 bits, and the weight codes with a scale for each row, the sums are taken of the integers, which
 * is exact, and scaled once:
 *   out[o] = (sum of code * weight - zero * sum of weight) * scale * row scale[o] + bias[o]
 * Around x is its zero.
 *
 * What moves elements or chooses among them (views, padding with zeros, maximum pooling) does so
 * before codes are decoded, and codes that are decoded and quantised by the same scale and zero
 * stay as they were. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "interp/passes/passes.h"

enum { FEW_ROWS = 8 };
/* Of products that a sum has at most, so that 32 bits hold it: 255 * 128 * MOST_TERMS < 2^31. */
static const int64_t MOST_TERMS = 65000;

/* A tensor that is (codes - zero) * scale, in f32. */
typedef struct dequantized {
  uint32_t codes; /* I8 or U8 */
  double scale;
  int zero; /* of codes' dtype */
} dequantized;

static bool is_code(dtype t) { return t == DTYPE_I8 || t == DTYPE_U8; }

static bool open_f32(const draft *d, expr e, ir_step_kind kind, expr args[MAX_STEP_ARITY]) {
  ir_step_kind is;
  dtype type;
  return open_step(d, e, &is, args, &type) && is == kind && type == DTYPE_F32;
}

static bool take_zero(const draft *d, expr *e, double *zero) {
  expr args[MAX_STEP_ARITY];
  *zero = 0;
  if (!open_f32(d, *e, IR_STEP_KIND_SUB, args)) return true;
  *e = args[0];
  return expr_number(d, args[1], zero);
}

static bool take_dequantized(const draft *d, expr e, dequantized *q) {
  expr args[MAX_STEP_ARITY], codes;
  double zero, scale;
  if (!open_f32(d, e, IR_STEP_KIND_MUL, args) || !expr_number(d, args[1], &scale)) return false;
  expr whole = args[0];
  if (!take_zero(d, &whole, &zero) || !open_f32(d, whole, IR_STEP_KIND_CAST, args)) return false;
  codes = args[0];
  if (codes.kind != EXPR_TENSOR || !is_code(draft_type(d, codes.index))) return false;
  bool is_signed = draft_type(d, codes.index) == DTYPE_I8;
  *q = (dequantized){.codes = codes.index, .scale = (float)scale, .zero = (int)zero};
  return scale > 0 && isfinite(scale) && zero == floor(zero) && zero >= (is_signed ? -128 : 0) &&
         zero <= (is_signed ? 127 : 255);
}

/* The same of codes that were moved. */
static uint32_t add_dequantized(draft *d, draft_node *before, const dequantized *q) {
  const double zero = q->zero, scale = q->scale;
  uint32_t x = draft_cast(d, before, q->codes, DTYPE_F32);
  x = draft_step_number(d, before, IR_STEP_KIND_SUB, x, zero);
  return draft_step_number(d, before, IR_STEP_KIND_MUL, x, scale);
}

/* ---------------------------------------------------------------- the weight */

/* Codes of rows as integers of 8 bits, and a scale for each row. */
typedef struct weight_codes {
  uint32_t constant;
  int64_t rows, row; /* elements of one */
} weight_codes;

static bool take_codes(const draft *d, uint32_t constant, weight_codes *w) {
  if (constant >= d->from->ir.constants.count || !d->slots[constant].data) return false;
  const tensor *t = &d->from->types[constant];
  const encoding *e = &t->encoding;
  if (e->kind != ENCODING_GROUPS || e->axis != 1 || e->code != CODE_INT || e->has_zeros)
    return false;
  if (tensor_numel(t) == 0) return false;
  *w = (weight_codes){.constant = constant, .rows = tensor_rows(t), .row = tensor_row(t)};
  return w->row <= MOST_TERMS && encoding_groups(e, w->row) == 1;
}

/* What the sums are scaled by and begin with, and the codes themselves. */
typedef struct parts {
  signed char *weight; /* (rows, row) */
  float *scale;        /* (rows) */
  int32_t *begin;      /* (rows): -zero * the sum of the weight's row */
} parts;

static void read_row(const draft *d, const weight_codes *w, const dequantized *x, int64_t r,
                     const parts *p) {
  const encoding *e = &d->from->types[w->constant].encoding;
  const uint8_t *from = d->slots[w->constant].data;
  const uint8_t *row = from + (size_t)r * encoding_row_bytes(e, w->row);
  int sum = 0;
  for (int64_t k = 0; k < w->row; k += DECODED_AT_ONCE) {
    float codes[DECODED_AT_ONCE];
    const code_factors f = encoding_split(e, row, w->row, k / DECODED_AT_ONCE, codes);
    if (k == 0) p->scale[r] = f.d[0];
    for (int64_t i = k; i < w->row && i < k + DECODED_AT_ONCE; i++) {
      p->weight[r * w->row + i] = (signed char)codes[i - k];
      sum += (int)codes[i - k];
    }
  }
  p->scale[r] *= (float)x->scale;
  p->begin[r] = -x->zero * sum;
}

/* The weight as a constant (rows, ...) of this shape, the scales (rows, 1 ...) and, where x has a
 * zero, what sums begin with (rows). False: no memory, or a scale that is not finite. */
typedef struct integer_weight {
  uint32_t weight, scale, begin;
} integer_weight;
static bool add_weight(draft *d, const draft_node *n, const weight_codes *w, const dequantized *x,
                       const ir_int_or_vid *shape, int rank, integer_weight *out) {
  const size_t rows = (size_t)w->rows;
  const parts p = {.weight = malloc(rows * (size_t)w->row),
                   .scale = malloc(rows * sizeof(float)),
                   .begin = malloc(rows * sizeof(int32_t))};
  ir_int_or_vid column[MAX_RANK] = {literal_size(w->rows)};
  bool good = p.weight && p.scale && p.begin;
  if (!good) d->no_memory = true;
  for (int64_t r = 0; r < w->rows && good; r++) {
    read_row(d, w, x, r, &p);
    good = isfinite(p.scale[r]);
  }
  for (int i = 1; i < rank; i++) column[i] = literal_size(1);
  if (good) {
    out->weight = draft_constant(d, DTYPE_I8, shape, rank, n->ins.name, p.weight);
    out->scale = draft_constant(d, DTYPE_F32, column, rank - 1, n->ins.name, p.scale);
    out->begin = x->zero ? draft_constant(d, DTYPE_I32, column, 1, n->ins.name, p.begin) : IR_NONE;
  }
  free(p.weight);
  free(p.scale);
  free(p.begin);
  return good && !d->no_memory;
}

/* sums, I32 (N, O, ...) or (..., O), as floats: times the scales, and the bias (O) added. */
static uint32_t scale_sums(draft *d, draft_node *before, uint32_t sums, uint32_t scale,
                           uint32_t bias) {
  ir_int_or_vid column[MAX_RANK];
  int rank = draft_rank(d, scale);
  for (int i = 0; i < rank; i++) column[i] = *draft_dim(d, scale, i);
  uint32_t x = draft_cast(d, before, sums, DTYPE_F32);
  x = draft_step(d, before, IR_STEP_KIND_MUL, (uint32_t[]){x, scale}, 2);
  if (bias == IR_NONE) return x;
  bias = draft_reshape(d, before, bias, column, rank);
  return draft_step(d, before, IR_STEP_KIND_ADD, (uint32_t[]){x, bias}, 2);
}

static uint32_t sums_slot(draft *d, const draft_node *n, uint32_t like) {
  const ir_int_or_vids *shape = &d->slots[like].t.shape;
  return draft_slot_new(d, DTYPE_I32, shape->items, (int)shape->count, n->ins.name);
}

/* ---------------------------------------------------------------- convolutions */

bool find_integer_conv(match *m, uint32_t *out) {
  dequantized x;
  weight_codes w;
  integer_weight made;
  draft *d = m->d;
  const ir_conv *o = m->root->ins.op;
  if (m->root->ins.op_type != IR_OP_CONV || m->type != DTYPE_F32 || o->epilogue.count) return false;
  const uint32_t codes = draft_codes(d, o->weight);
  if (codes == IR_NONE || !take_codes(d, codes, &w) || !take_dequantized(d, tensor_expr(o->x), &x))
    return false;
  const ir_int_or_vids *shape = &d->slots[codes].t.shape;
  if (!add_weight(d, m->root, &w, &x, shape->items, (int)shape->count, &made)) return false;
  uint32_t sums = sums_slot(d, m->root, o->out);
  ir_conv_integer *c = draft_add(d, m->root, IR_OP_CONV_INTEGER);
  *c = (ir_conv_integer){.x = x.codes,
                         .weight = made.weight,
                         .bias = made.begin,
                         .stride = o->stride,
                         .padding = o->padding,
                         .dilation = o->dilation,
                         .groups = o->groups,
                         .padding_value = x.zero,
                         .out = sums};
  draft_note(d, m->root);
  *out = scale_sums(d, m->root, sums, made.scale, o->bias);
  return !d->no_memory;
}

/* ---------------------------------------------------------------- products */

static uint32_t add_product(draft *d, draft_node *before, const dequantized *x,
                            const integer_weight *w, uint32_t like) {
  uint32_t sums = sums_slot(d, before, like);
  ir_matmul_integer *p = draft_add(d, before, IR_OP_MATMUL_INTEGER);
  if (d->no_memory) return IR_NONE;
  *p = (ir_matmul_integer){.a = x->codes, .b = w->weight, .bias = w->begin, .out = sums};
  draft_note(d, before);
  return sums;
}

/* Enough rows to be worth it, for every input: fewer wait for the weight, which is in floats' form
 * no longer. */
static bool has_rows(const draft *d, uint32_t a) {
  tensor t;
  return draft_fixed(d, a, &t) && t.rank >= 2 && t.dims[t.rank - 2] >= FEW_ROWS;
}

bool find_integer_matmul(match *m, uint32_t *out) {
  dequantized x;
  weight_codes w;
  integer_weight made;
  draft *d = m->d;
  draft_node *root = m->root;
  const ir_matmul *o = root->ins.op;
  if (root->ins.op_type != IR_OP_MATMUL || m->type != DTYPE_F32 || !o->b_transposed) return false;
  if (o->epilogue.count || o->alpha != 1 || !has_rows(d, o->a) || !take_codes(d, o->b, &w) ||
      !take_dequantized(d, tensor_expr(o->a), &x))
    return false;
  bool has_bias = o->bias != IR_NONE && o->beta != 0;
  if (has_bias && (o->beta != 1 || draft_rank(d, o->bias) != 1)) return false;
  const ir_int_or_vid shape[] = {literal_size(w.rows), literal_size(w.row)};
  if (!add_weight(d, root, &w, &x, shape, 2, &made)) return false;
  uint32_t sums = add_product(d, root, &x, &made, o->out);
  if (d->no_memory) return false;
  *out = scale_sums(d, root, sums, made.scale, has_bias ? o->bias : IR_NONE);
  return !d->no_memory;
}

/* ---------------------------------------------------------------- what stays codes */

/* Ops whose results are elements of x, and where x and the result are in them. */
#define MOVE(TYPE, type) \
  { IR_OP_##TYPE, offsetof(ir_##type, x), offsetof(ir_##type, out) }
static const struct {
  ir_op type;
  size_t x, out;
} moves[] = {
    MOVE(RESHAPE, reshape),
    MOVE(PERMUTE, permute),
    MOVE(SLICE, slice),
    MOVE(SELECT, select),
    MOVE(EXPAND, expand),
    MOVE(FLIP, flip),
    MOVE(UNFOLD, unfold),
    MOVE(COPY, copy),
    MOVE(PAD, pad),
    MOVE(POOL, pool),
    MOVE(AS_STRIDED, as_strided),
};
enum { N_MOVES = sizeof moves / sizeof moves[0] };

/* A maximum, alone; and around what is padded, if anything, x's zero. */
static bool keeps_codes(const ir_instruction *ins) {
  const ir_pool *pool = ins->op;
  const ir_pad *pad = ins->op;
  if (ins->op_type == IR_OP_POOL) return pool->kind == IR_POOL_KIND_MAX && pool->indices == IR_NONE;
  return ins->op_type != IR_OP_PAD || pad->mode != IR_PAD_MODE_CONSTANT ||
         (pad->value == 0 && !signbit(pad->value));
}

static void *add_move(draft *d, draft_node *root, uint32_t codes, size_t x_at, size_t out_at,
                      uint32_t out) {
  void *op = draft_add(d, root, root->ins.op_type);
  memcpy(op, root->ins.op, op_table[root->ins.op_type].table->size);
  memcpy((char *)op + x_at, &codes, sizeof codes);
  memcpy((char *)op + out_at, &out, sizeof out);
  return op;
}

bool find_integer_move(match *m, uint32_t *out) {
  dequantized q;
  uint32_t x;
  draft *d = m->d;
  const ir_instruction *ins = &m->root->ins;
  int i = 0;
  while (i < N_MOVES && moves[i].type != ins->op_type) i++;
  if (i == N_MOVES || m->type != DTYPE_F32 || !keeps_codes(ins)) return false;
  memcpy(&x, (const char *)ins->op + moves[i].x, sizeof x);
  if (!take_dequantized(d, tensor_expr(x), &q)) return false;
  const ir_int_or_vids *shape = &d->slots[m->out].t.shape;
  uint32_t codes =
      draft_slot_new(d, draft_type(d, q.codes), shape->items, (int)shape->count, ins->name);
  if (d->no_memory) return false;
  void *op = add_move(d, m->root, q.codes, moves[i].x, moves[i].out, codes);
  if (ins->op_type == IR_OP_PAD) ((ir_pad *)op)->value = q.zero;
  draft_note(d, m->root);
  q.codes = codes;
  *out = add_dequantized(d, m->root, &q);
  return !d->no_memory;
}

/* cast(clamp(round(x / scale) + zero, the least code, the greatest)), as every library writes it.
 */
bool find_requantized(match *m, uint32_t *out) {
  dequantized x;
  double low, high, zero, inverse;
  expr a[MAX_STEP_ARITY], e;
  const draft *d = m->d;
  ir_step_kind kind;
  dtype type;
  if (!is_code(m->type) || !open_step(d, tensor_expr(m->out), &kind, a, &type) ||
      kind != IR_STEP_KIND_CAST || !open_f32(d, a[0], IR_STEP_KIND_CLAMP, a))
    return false;
  bool is_signed = m->type == DTYPE_I8;
  if (!expr_number(d, a[1], &low) || !expr_number(d, a[2], &high) ||
      low != (is_signed ? -128 : 0) || high != (is_signed ? 127 : 255))
    return false;
  e = a[0];
  if (!open_f32(d, e, IR_STEP_KIND_ADD, a) || !expr_number(d, a[1], &zero)) return false;
  if (!open_f32(d, a[0], IR_STEP_KIND_ROUND, a) || !open_f32(d, a[0], IR_STEP_KIND_MUL, a) ||
      !expr_number(d, a[1], &inverse) || !take_dequantized(d, a[0], &x))
    return false;
  if (draft_type(d, x.codes) != m->type || x.zero != zero || fabs(x.scale * inverse - 1) > 1e-4)
    return false;
  *out = x.codes;
  return draft_can_stand_for(d, *out, m->out);
}
