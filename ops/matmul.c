/* Matmul: batched, broadcast, with scaled bias; of integers; and of rows that each go with one of
 * several matrices. */
#include "ops/matmul.h"

#include "ops/rule_checks.h"

static clave_status check_factors(const rule_context *c, uint32_t a, uint32_t b) {
  dtype left = rule_tensor(c, a)->type, right = rule_tensor(c, b)->type;
  TRY(check_not_bool(c, a, "a"));
  return left == right
             ? NULL
             : INVALID("b: expected %s like a, got %s", dtype_name(left), dtype_name(right));
}

/* b is widened as it is read. */
static bool is_narrower(dtype a, dtype b) {
  return a == DTYPE_F32 && (b == DTYPE_F16 || b == DTYPE_BF16);
}

/* b (*, N, K) as it is multiplied, of any dtype: (*, K, N), of `rank` dimensions. */
static clave_status turn_encoded(dtype a, bool transposed, int rank, tensor *b) {
  bool is_encoded = b->encoding.kind != ENCODING_PLAIN;
  if (transposed != is_encoded)
    return INVALID("b_transposed: expected %s as b is %s, got %s", is_encoded ? "true" : "false",
                   is_encoded ? "encoded" : "plain", transposed ? "true" : "false");
  if (!is_encoded) return NULL;
  if (a != DTYPE_F32 && a != DTYPE_F16 && a != DTYPE_BF16)
    return INVALID("a: expected F32, F16 or BF16 as b is encoded, got %s", dtype_name(a));
  if (b->rank != rank || b->encoding.axis != rank - 1)
    return INVALID("b: expected rank %d with encoded rows along axis %d, got rank %d and axis %d",
                   rank, rank - 1, b->rank, b->encoding.axis);
  int64_t n = b->dims[rank - 2];
  b->dims[rank - 2] = b->dims[rank - 1];
  b->dims[rank - 1] = n;
  return NULL;
}

static clave_status check_same_dtype(const rule_context *c, const ir_matmul *o) {
  dtype t = rule_tensor(c, o->a)->type;
  if (!o->b_transposed && !is_narrower(t, rule_tensor(c, o->b)->type))
    TRY(check_factors(c, o->a, o->b));
  if (o->bias == IR_NONE) return NULL;
  dtype bias = rule_tensor(c, o->bias)->type;
  return bias == t ? NULL
                   : INVALID("bias: expected %s like a, got %s", dtype_name(t), dtype_name(bias));
}

static clave_status check_scales(const ir_matmul *o, dtype t) {
  if (dtype_is_float(t)) return NULL;
  if (!float_fits_int(t, o->alpha))
    return INVALID("alpha %g does not fit %s", o->alpha, dtype_name(t));
  return float_fits_int(t, o->beta) ? NULL
                                    : INVALID("beta %g does not fit %s", o->beta, dtype_name(t));
}

/* bias broadcasts to out and must not widen it. */
static clave_status check_bias(const rule_context *c, uint32_t bias_id, const tensor *out) {
  if (bias_id == IR_NONE) return NULL;
  const tensor *bias = rule_tensor(c, bias_id);
  bool fits = bias->rank <= out->rank;
  for (int i = 0; fits && i < bias->rank; i++) {
    fits = bias->dims[i] == 1 || dim_matches(bias->dims[i], out->dims[out->rank - bias->rank + i]);
  }
  char a[SHAPE_TEXT], b[SHAPE_TEXT];
  if (fits) return NULL;
  return INVALID("bias %s does not broadcast to %s", tensor_shape_text(bias, a, SHAPE_TEXT),
                 tensor_shape_text(out, b, SHAPE_TEXT));
}

clave_status rule_matmul(const rule_context *c, const void *op) {
  const ir_matmul *o = op;
  TRY(check_rank_at_least(c, o->a, "a", 2));
  TRY(check_rank_at_least(c, o->b, "b", 2));
  tensor a = *rule_tensor(c, o->a), b = *rule_tensor(c, o->b);
  TRY(turn_encoded(a.type, o->b_transposed, 2, &b));
  TRY(check_same_dtype(c, o));
  TRY(check_scales(o, a.type));
  int64_t m = a.dims[a.rank - 2], ka = a.dims[a.rank - 1], kb = b.dims[b.rank - 2],
          n = b.dims[b.rank - 1];
  if (!dim_matches(ka, kb))
    return INVALID("a has %lld columns, b has %lld rows", (long long)ka, (long long)kb);
  a.rank -= 2;
  b.rank -= 2;
  TRY(status_while(rule_broadcast(&b, &a.rank, a.dims), "leading dimensions of a and b"));
  a.dims[a.rank++] = m;
  a.dims[a.rank++] = n;
  TRY(check_bias(c, o->bias, &a));
  return rule_expect_like(c, o->out, "out", &a);
}

clave_status rule_matmul_integer(const rule_context *c, const void *op) {
  const ir_matmul_integer *o = op;
  TRY(check_rank_at_least(c, o->a, "a", 2));
  const tensor *a = rule_tensor(c, o->a), *b = rule_tensor(c, o->b);
  if (a->type != DTYPE_I8 && a->type != DTYPE_U8)
    return INVALID("a: expected I8 or U8, got %s", dtype_name(a->type));
  if (b->type != DTYPE_I8) return INVALID("b: expected I8, got %s", dtype_name(b->type));
  if (b->rank != 2) return INVALID("b: expected rank 2, got %d", b->rank);
  if (!dim_matches(a->dims[a->rank - 1], b->dims[1]))
    return INVALID("a has %lld columns, b has %lld", (long long)a->dims[a->rank - 1],
                   (long long)b->dims[1]);
  TRY(check_optional(c, o->bias, "bias", DTYPE_I32, 1, &b->dims[0]));
  tensor want = *a;
  want.type = o->epilogue.count ? rule_tensor(c, o->out)->type : DTYPE_I32;
  want.dims[want.rank - 1] = b->dims[0];
  return rule_expect_like(c, o->out, "out", &want);
}

static clave_status check_rank(const tensor *x, const char *what, int rank) {
  return x->rank == rank ? NULL : INVALID("%s: expected rank %d, got %d", what, rank, x->rank);
}

clave_status rule_grouped_matmul(const rule_context *c, const void *op) {
  const ir_grouped_matmul *o = op;
  const tensor *a = rule_tensor(c, o->a), *ends = rule_tensor(c, o->ends);
  tensor b = *rule_tensor(c, o->b);
  TRY(check_rank(a, "a", 2));
  TRY(check_rank(&b, "b", 3));
  TRY(check_rank(ends, "ends", 1));
  TRY(turn_encoded(a->type, o->b_transposed, 3, &b));
  if (!o->b_transposed) TRY(check_factors(c, o->a, o->b));
  TRY(check_index_dtype(c, o->ends, "ends"));
  if (!dim_matches(a->dims[1], b.dims[1]))
    return INVALID("a has %lld columns, matrices of b have %lld rows", (long long)a->dims[1],
                   (long long)b.dims[1]);
  if (!dim_matches(ends->dims[0], b.dims[0]))
    return INVALID("ends has %lld elements, b has %lld matrices", (long long)ends->dims[0],
                   (long long)b.dims[0]);
  return rule_expect(c, o->out, "out", a->type, 2, (int64_t[]){a->dims[0], b.dims[2]});
}

/* ---------------------------------------------------------------- description */

/* The leading dimensions of x, broadcast to those of out; NULL: of no strides. */
static tensor batch_of(const bound_tensor *x, const tensor *out) {
  tensor lead = {0}, wide;
  if (x) lead = x->t;
  lead.rank = lead.rank > 2 ? lead.rank - 2 : 0;
  tensor_broadcast(&lead, out->rank - 2, out->dims, &wide);
  wide.offset = 0;
  return wide;
}

static bool steps_evenly(const tensor *batch, int d, int64_t m, int64_t m_stride) {
  return m == 1 || batch->strides[d] == m * m_stride;
}

/* The last batch dimension becomes rows; false where it cannot. */
static bool fold_last(matmul_form *f) {
  int d = f->batch_a.rank - 1;
  if (f->batch_b.strides[d] != 0 || !steps_evenly(&f->batch_a, d, f->m, f->a_m) ||
      !steps_evenly(&f->batch_bias, d, f->m, f->bias_m))
    return false;
  if (f->m == 1) {
    f->a_m = f->batch_a.strides[d];
    f->bias_m = f->batch_bias.strides[d];
  }
  f->m *= f->batch_a.dims[d];
  f->batch_a.rank = f->batch_b.rank = f->batch_bias.rank = d;
  return true;
}

static void transpose_column(matmul_form *f) {
  if (f->n != 1 || f->m == 1 || f->b->t.encoding.kind || f->a->t.type != f->b->t.type) return;
  const matmul_form t = *f;
  f->a = t.b;
  f->b = t.a;
  f->batch_a = t.batch_b;
  f->batch_b = t.batch_a;
  f->m = 1;
  f->n = t.m;
  f->a_m = t.b_n;
  f->a_k = t.b_k;
  f->b_k = t.a_k;
  f->b_n = t.a_m;
  f->bias_m = t.bias_n;
  f->bias_n = t.bias_m;
}

static void collapse_batches(matmul_form *f) {
  const tensor *out = &f->out->t;
  tensor batch[] = {batch_of(f->a, out), batch_of(f->b, out), (tensor){0}};
  if (f->bias) {
    const bound_tensor wide = broadcast_operand(f->bias, out);
    f->bias_m = wide.t.strides[out->rank - 2];
    f->bias_n = wide.t.strides[out->rank - 1];
    batch[2] = take_dims(&wide.t, 0, out->rank - 2);
  } else {
    batch[2] = batch_of(NULL, out);
  }
  tensors_collapse(batch, 3);
  f->batch_a = batch[0];
  f->batch_b = batch[1];
  f->batch_bias = batch[2];
}

void describe_matmul(const node *n, matmul_form *f) {
  const ir_matmul *op = n->instruction->op;
  *f = (matmul_form){.a = &n->tensors[op->a],
                     .b = &n->tensors[op->b],
                     .out = &n->tensors[op->out],
                     .type = program_type(n, op->out),
                     .alpha = op->alpha,
                     .beta = op->beta};
  if (op->beta != 0) f->bias = operand_of(n, op->bias);
  const tensor *a = &f->a->t, *b = &f->b->t;
  f->m = a->dims[a->rank - 2];
  f->k = a->dims[a->rank - 1];
  f->n = b->dims[b->rank - (op->b_transposed ? 2 : 1)];
  f->a_m = a->strides[a->rank - 2];
  f->a_k = a->strides[a->rank - 1];
  f->b_k = b->strides[b->rank - (op->b_transposed ? 1 : 2)];
  f->b_n = b->strides[b->rank - (op->b_transposed ? 2 : 1)];
  collapse_batches(f);
  while (f->batch_a.rank > 0 && fold_last(f)) continue;
  f->batches = tensor_numel(&f->batch_a);
  transpose_column(f);
}

static bool is_small_float(dtype t) { return t == DTYPE_F32 || t == DTYPE_F16 || t == DTYPE_BF16; }

bool matmul_may_round(const matmul_form *f) {
  const dtype b = f->b->t.type;
  return is_small_float(f->out->t.type) && is_small_float(b) &&
         (b != DTYPE_F32 || f->k >= LEAST_ROUNDED_K);
}

void describe_grouped_matmul(const node *n, grouped_matmul_form *f) {
  const ir_grouped_matmul *op = n->instruction->op;
  *f = (grouped_matmul_form){.a = &n->tensors[op->a],
                             .b = &n->tensors[op->b],
                             .ends = &n->tensors[op->ends],
                             .out = &n->tensors[op->out]};
  const int n_at = op->b_transposed ? 1 : 2, k_at = op->b_transposed ? 2 : 1;
  f->rows = f->a->t.dims[0];
  f->groups = f->b->t.dims[0];
  f->n = f->b->t.dims[n_at];
  f->k = f->b->t.dims[k_at];
  f->b_n = f->b->t.strides[n_at];
  f->b_k = f->b->t.strides[k_at];
}

void describe_matmul_integer(const node *n, integer_matmul_form *f) {
  const ir_matmul_integer *op = n->instruction->op;
  *f = (integer_matmul_form){.a = &n->tensors[op->a],
                             .b = &n->tensors[op->b],
                             .bias = operand_of(n, op->bias),
                             .out = &n->tensors[op->out]};
  const tensor *b = &f->b->t, *rows = &f->a->t;
  f->n = b->dims[0];
  f->k = b->dims[1];
  f->m = 1;
  for (int i = 0; i + 1 < rows->rank; i++) f->m *= rows->dims[i];
}
