/* Matmul (batched, broadcast, with scaled bias), MatmulInteger, and GroupedMatmul, where each row
 * is multiplied by one of several matrices. */
#include "ops/matmul.h"

#include "ops/rule_checks.h"

static clave_status check_factors(const rule_context *context, uint32_t a, uint32_t b) {
  dtype left = rule_tensor(context, a)->type, right = rule_tensor(context, b)->type;
  TRY(check_not_bool(context, a, "a"));
  return left == right
             ? NULL
             : INVALID("b: expected %s like a, got %s", dtype_name(left), dtype_name(right));
}

/* True if b is widened to a's dtype when it is read. */
static bool is_narrower(dtype a, dtype b) {
  return a == DTYPE_F32 && (b == DTYPE_F16 || b == DTYPE_BF16);
}

/* Transposes an encoded b, (*, N, K), to (*, K, N), the shape in which it is multiplied. Fails
 * unless b_transposed, a's dtype, the rank and the encoded axis suit the encoding. */
static clave_status transpose_encoded(dtype a, bool transposed, int rank, tensor *tensor) {
  bool is_encoded = tensor->encoding.kind != ENCODING_PLAIN;
  if (transposed != is_encoded)
    return INVALID("b_transposed: expected %s as b is %s, got %s", is_encoded ? "true" : "false",
                   is_encoded ? "encoded" : "plain", transposed ? "true" : "false");
  if (!is_encoded) return NULL;
  if (a != DTYPE_F32 && a != DTYPE_F16 && a != DTYPE_BF16)
    return INVALID("a: expected F32, F16 or BF16 as b is encoded, got %s", dtype_name(a));
  if (tensor->rank != rank || tensor->encoding.axis != rank - 1)
    return INVALID("b: expected rank %d with encoded rows along axis %d, got rank %d and axis %d",
                   rank, rank - 1, tensor->rank, tensor->encoding.axis);
  int64_t n = tensor->dims[rank - 2];
  tensor->dims[rank - 2] = tensor->dims[rank - 1];
  tensor->dims[rank - 1] = n;
  return NULL;
}

static clave_status check_same_dtype(const rule_context *context, const ir_matmul *op) {
  dtype t = rule_tensor(context, op->a)->type;
  if (!op->b_transposed && !is_narrower(t, rule_tensor(context, op->b)->type))
    TRY(check_factors(context, op->a, op->b));
  if (op->bias == IR_NONE) return NULL;
  dtype bias = rule_tensor(context, op->bias)->type;
  return bias == t ? NULL
                   : INVALID("bias: expected %s like a, got %s", dtype_name(t), dtype_name(bias));
}

static clave_status op_matmul_check_scales(const ir_matmul *op, dtype t) {
  if (dtype_is_float(t)) return NULL;
  if (!float_fits_int(t, op->alpha))
    return INVALID("alpha %g does not fit %s", op->alpha, dtype_name(t));
  return float_fits_int(t, op->beta) ? NULL
                                     : INVALID("beta %g does not fit %s", op->beta, dtype_name(t));
}

/* Fails unless bias broadcasts to out without enlarging it. */
static clave_status check_bias(const rule_context *context, uint32_t bias_id, const tensor *out) {
  if (bias_id == IR_NONE) return NULL;
  const tensor *bias = rule_tensor(context, bias_id);
  bool fits = bias->rank <= out->rank;
  for (int i = 0; fits && i < bias->rank; i++) {
    fits = bias->dims[i] == 1 || dim_matches(bias->dims[i], out->dims[out->rank - bias->rank + i]);
  }
  char a[SHAPE_TEXT], b[SHAPE_TEXT];
  if (fits) return NULL;
  return INVALID("bias %s does not broadcast to %s", tensor_shape_text(bias, a, SHAPE_TEXT),
                 tensor_shape_text(out, b, SHAPE_TEXT));
}

clave_status rule_matmul(const rule_context *context, const void *op) {
  const ir_matmul *matmul = op;
  TRY(check_rank_at_least(context, matmul->a, "a", 2));
  TRY(check_rank_at_least(context, matmul->b, "b", 2));
  tensor want = *rule_tensor(context, matmul->a), b = *rule_tensor(context, matmul->b);
  TRY(transpose_encoded(want.type, matmul->b_transposed, 2, &b));
  TRY(check_same_dtype(context, matmul));
  TRY(op_matmul_check_scales(matmul, want.type));
  int64_t m = want.dims[want.rank - 2], ka = want.dims[want.rank - 1], kb = b.dims[b.rank - 2],
          n = b.dims[b.rank - 1];
  if (!dim_matches(ka, kb))
    return INVALID("a has %lld columns, b has %lld rows", (long long)ka, (long long)kb);
  want.rank -= 2;
  b.rank -= 2;
  TRY(status_while(rule_broadcast(&b, &want.rank, want.dims), "leading dimensions of a and b"));
  want.dims[want.rank++] = m;
  want.dims[want.rank++] = n;
  TRY(check_bias(context, matmul->bias, &want));
  return rule_expect_like(context, matmul->out, "out", &want);
}

clave_status rule_matmul_integer(const rule_context *context, const void *op) {
  const ir_matmul_integer *matmul_integer = op;
  TRY(check_rank_at_least(context, matmul_integer->a, "a", 2));
  const tensor *a = rule_tensor(context, matmul_integer->a),
               *b = rule_tensor(context, matmul_integer->b);
  if (a->type != DTYPE_I8 && a->type != DTYPE_U8)
    return INVALID("a: expected I8 or U8, got %s", dtype_name(a->type));
  if (b->type != DTYPE_I8) return INVALID("b: expected I8, got %s", dtype_name(b->type));
  if (b->rank != 2) return INVALID("b: expected rank 2, got %d", b->rank);
  if (!dim_matches(a->dims[a->rank - 1], b->dims[1]))
    return INVALID("a has %lld columns, b has %lld", (long long)a->dims[a->rank - 1],
                   (long long)b->dims[1]);
  TRY(check_optional(context, matmul_integer->bias, "bias", DTYPE_I32, 1, &b->dims[0]));
  tensor want = *a;
  want.type =
      matmul_integer->epilogue.count ? rule_tensor(context, matmul_integer->out)->type : DTYPE_I32;
  want.dims[want.rank - 1] = b->dims[0];
  return rule_expect_like(context, matmul_integer->out, "out", &want);
}

static clave_status check_rank(const tensor *tensor, const char *what, int rank) {
  return tensor->rank == rank ? NULL
                              : INVALID("%s: expected rank %d, got %d", what, rank, tensor->rank);
}

clave_status rule_grouped_matmul(const rule_context *context, const void *op) {
  const ir_grouped_matmul *grouped_matmul = op;
  const tensor *a = rule_tensor(context, grouped_matmul->a),
               *ends = rule_tensor(context, grouped_matmul->ends);
  tensor b = *rule_tensor(context, grouped_matmul->b);
  TRY(check_rank(a, "a", 2));
  TRY(check_rank(&b, "b", 3));
  TRY(check_rank(ends, "ends", 1));
  TRY(transpose_encoded(a->type, grouped_matmul->b_transposed, 3, &b));
  if (!grouped_matmul->b_transposed && !is_narrower(a->type, b.type))
    TRY(check_factors(context, grouped_matmul->a, grouped_matmul->b));
  TRY(check_index_dtype(context, grouped_matmul->ends, "ends"));
  if (!dim_matches(a->dims[1], b.dims[1]))
    return INVALID("a has %lld columns, matrices of b have %lld rows", (long long)a->dims[1],
                   (long long)b.dims[1]);
  if (!dim_matches(ends->dims[0], b.dims[0]))
    return INVALID("ends has %lld elements, b has %lld matrices", (long long)ends->dims[0],
                   (long long)b.dims[0]);
  return rule_expect(context, grouped_matmul->out, "out", a->type, 2,
                     (int64_t[]){a->dims[0], b.dims[2]});
}

/* ---------------------------------------------------------------- description */

/* Returns all dimensions of the operand except the last two, broadcast to those of out. If operand
 * is NULL, their strides are 0. */
static tensor batch_of(const bound_tensor *operand, const tensor *out) {
  tensor lead = {0}, wide;
  if (operand) lead = operand->tensor;
  lead.rank = lead.rank > 2 ? lead.rank - 2 : 0;
  tensor_broadcast(&lead, out->rank - 2, out->dims, &wide);
  wide.offset = 0;
  return wide;
}

static bool steps_evenly(const tensor *batch, int d, int64_t m, int64_t m_stride) {
  return m == 1 || batch->strides[d] == m * m_stride;
}

/* Folds the last batch dimension into the rows. Returns false if strides do not allow it. */
static bool fold_last(matmul_desc *desc) {
  int d = desc->batch_a.rank - 1;
  if (desc->batch_b.strides[d] != 0 || !steps_evenly(&desc->batch_a, d, desc->m, desc->a_m) ||
      !steps_evenly(&desc->batch_bias, d, desc->m, desc->bias_m))
    return false;
  if (desc->m == 1) {
    desc->a_m = desc->batch_a.strides[d];
    desc->bias_m = desc->batch_bias.strides[d];
  }
  desc->m *= desc->batch_a.dims[d];
  desc->batch_a.rank = desc->batch_b.rank = desc->batch_bias.rank = d;
  return true;
}

static void transpose_column(matmul_desc *desc) {
  if (desc->n != 1 || desc->m == 1 || desc->b->tensor.encoding.kind ||
      desc->a->tensor.type != desc->b->tensor.type)
    return;
  const matmul_desc old = *desc;
  desc->a = old.b;
  desc->b = old.a;
  desc->batch_a = old.batch_b;
  desc->batch_b = old.batch_a;
  desc->m = 1;
  desc->n = old.m;
  desc->a_m = old.b_n;
  desc->a_k = old.b_k;
  desc->b_k = old.a_k;
  desc->b_n = old.a_m;
  desc->bias_m = old.bias_n;
  desc->bias_n = old.bias_m;
}

static void collapse_batches(matmul_desc *desc) {
  const tensor *out = &desc->out->tensor;
  tensor batch[] = {batch_of(desc->a, out), batch_of(desc->b, out), (tensor){0}};
  if (desc->bias) {
    const bound_tensor wide = broadcast_operand(desc->bias, out);
    desc->bias_m = wide.tensor.strides[out->rank - 2];
    desc->bias_n = wide.tensor.strides[out->rank - 1];
    batch[2] = take_dims(&wide.tensor, 0, out->rank - 2);
  } else {
    batch[2] = batch_of(NULL, out);
  }
  tensors_collapse(batch, 3);
  desc->batch_a = batch[0];
  desc->batch_b = batch[1];
  desc->batch_bias = batch[2];
}

void describe_matmul(const node *node, matmul_desc *desc) {
  const ir_matmul *op = node->instruction->op;
  *desc = (matmul_desc){.a = &node->tensors[op->a],
                        .b = &node->tensors[op->b],
                        .out = &node->tensors[op->out],
                        .type = program_type(node, op->out),
                        .alpha = op->alpha,
                        .beta = op->beta};
  if (op->beta != 0) desc->bias = operand_of(node, op->bias);
  const tensor *a = &desc->a->tensor, *b = &desc->b->tensor;
  desc->m = a->dims[a->rank - 2];
  desc->k = a->dims[a->rank - 1];
  desc->n = b->dims[b->rank - (op->b_transposed ? 2 : 1)];
  desc->a_m = a->strides[a->rank - 2];
  desc->a_k = a->strides[a->rank - 1];
  desc->b_k = b->strides[b->rank - (op->b_transposed ? 1 : 2)];
  desc->b_n = b->strides[b->rank - (op->b_transposed ? 2 : 1)];
  collapse_batches(desc);
  while (desc->batch_a.rank > 0 && fold_last(desc)) continue;
  desc->batches = tensor_numel(&desc->batch_a);
  transpose_column(desc);
}

static bool op_matmul_is_small_float(dtype t) {
  return t == DTYPE_F32 || t == DTYPE_F16 || t == DTYPE_BF16;
}

bool matmul_may_round(const matmul_desc *desc) {
  const dtype b = desc->b->tensor.type;
  return op_matmul_is_small_float(desc->out->tensor.type) && op_matmul_is_small_float(b) &&
         (b != DTYPE_F32 || desc->k >= MIN_ROUNDED_K);
}

void describe_grouped_matmul(const node *node, grouped_matmul_desc *desc) {
  const ir_grouped_matmul *op = node->instruction->op;
  *desc = (grouped_matmul_desc){.a = &node->tensors[op->a],
                                .b = &node->tensors[op->b],
                                .ends = &node->tensors[op->ends],
                                .out = &node->tensors[op->out]};
  const int n_at = op->b_transposed ? 1 : 2, k_at = op->b_transposed ? 2 : 1;
  desc->rows = desc->a->tensor.dims[0];
  desc->groups = desc->b->tensor.dims[0];
  desc->n = desc->b->tensor.dims[n_at];
  desc->k = desc->b->tensor.dims[k_at];
  desc->b_n = desc->b->tensor.strides[n_at];
  desc->b_k = desc->b->tensor.strides[k_at];
}

void describe_matmul_integer(const node *node, integer_matmul_desc *desc) {
  const ir_matmul_integer *op = node->instruction->op;
  *desc = (integer_matmul_desc){.a = &node->tensors[op->a],
                                .b = &node->tensors[op->b],
                                .bias = operand_of(node, op->bias),
                                .out = &node->tensors[op->out]};
  const tensor *tensor = &desc->b->tensor, *rows = &desc->a->tensor;
  desc->n = tensor->dims[0];
  desc->k = tensor->dims[1];
  desc->m = 1;
  for (int i = 0; i + 1 < rows->rank; i++) desc->m *= rows->dims[i];
}
