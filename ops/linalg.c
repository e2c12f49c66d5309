/* Linalg: LU, Cholesky, QR, eigenvalues, singular values, the matrix exponential; TriangularSolve;
 * PivotOrder. */
#include "ops/linalg.h"

#include "ops/rule_checks.h"

/* The last dimensions of an output. */
typedef struct last_dims {
  int n;
  int64_t dims[2];
} last_dims;

/* Fails unless the output, if present, has the leading dimensions of `like` followed by `last`. */
static clave_status expect_last(const rule_context *context, uint32_t tid, const char *what,
                                dtype type, const tensor *like, last_dims last) {
  if (tid == IR_NONE) return NULL;
  tensor want = *like;
  want.type = type;
  want.rank = like->rank - 2;
  for (int i = 0; i < last.n; i++) want.dims[want.rank++] = last.dims[i];
  return rule_expect_like(context, tid, what, &want);
}

static last_dims matrix(int64_t m, int64_t n) { return (last_dims){2, {m, n}}; }
static last_dims row(int64_t n) { return (last_dims){1, {n, 0}}; }

static int64_t min_dim(int64_t m, int64_t n) {
  if (m == 0 || n == 0) return 0;
  return m == DIM_UNKNOWN || n == DIM_UNKNOWN ? DIM_UNKNOWN : m < n ? m : n;
}

/* Returns k if the declared size matches k, else m. */
static int64_t chosen_size(int64_t declared, int64_t k, int64_t m) {
  return dim_matches(declared, k) ? k : m;
}

/* Returns dimension `back` from the end of a declared output, or k if it has no such dimension. */
static int64_t declared_size(const rule_context *context, uint32_t tid, int back, int64_t k) {
  if (tid == IR_NONE) return k;
  const tensor *tensor = rule_tensor(context, tid);
  return tensor->rank >= back ? tensor->dims[tensor->rank - back] : k;
}

static clave_status expect_lu(const rule_context *context, const ir_linalg *op,
                              const tensor *tensor, int64_t m, int64_t n) {
  TRY(expect_last(context, op->out, "out", tensor->type, tensor, matrix(m, n)));
  TRY(expect_last(context, op->b, "b", DTYPE_I32, tensor, row(min_dim(m, n))));
  return expect_last(context, op->info, "info", DTYPE_I32, tensor, (last_dims){0});
}

static clave_status expect_square(const rule_context *context, const ir_linalg *op,
                                  const tensor *tensor, int64_t m, int64_t n) {
  TRY(expect_last(context, op->out, "out", tensor->type, tensor, matrix(m, n)));
  return expect_last(context, op->info, "info", DTYPE_I32, tensor, (last_dims){0});
}

static clave_status expect_qr(const rule_context *context, const ir_linalg *op,
                              const tensor *tensor, int64_t m, int64_t n) {
  int64_t k = min_dim(m, n), j = chosen_size(declared_size(context, op->out, 2, k), k, m);
  TRY(expect_last(context, op->out, "out", tensor->type, tensor, matrix(j, n)));
  return expect_last(context, op->b, "b", tensor->type, tensor, matrix(m, j));
}

static clave_status expect_eigh(const rule_context *context, const ir_linalg *op,
                                const tensor *tensor, int64_t m, int64_t n) {
  TRY(expect_last(context, op->out, "out", tensor->type, tensor, row(n)));
  return expect_last(context, op->b, "b", tensor->type, tensor, matrix(m, n));
}

static clave_status expect_svd(const rule_context *context, const ir_linalg *op,
                               const tensor *tensor, int64_t m, int64_t n) {
  int64_t k = min_dim(m, n);
  TRY(expect_last(context, op->out, "out", tensor->type, tensor, row(k)));
  TRY(expect_last(context, op->b, "b", tensor->type, tensor,
                  matrix(m, chosen_size(declared_size(context, op->b, 1, k), k, m))));
  return expect_last(context, op->c, "c", tensor->type, tensor,
                     matrix(chosen_size(declared_size(context, op->c, 2, k), k, n), n));
}

/* The outputs that each kind writes, and whether it requires square matrices. */
typedef struct kind_rule {
  const char *name;
  clave_status (*expect)(const rule_context *context, const ir_linalg *op, const tensor *tensor,
                         int64_t m, int64_t n);
  bool square, has_b, has_c, has_info;
} kind_rule;
static const kind_rule kind_rules[] = {
    [IR_LINALG_KIND_LU] = {"lu", expect_lu, .has_b = true, .has_info = true},
    [IR_LINALG_KIND_CHOLESKY] = {"cholesky", expect_square, .square = true, .has_info = true},
    [IR_LINALG_KIND_QR] = {"qr", expect_qr, .has_b = true},
    [IR_LINALG_KIND_EIGH] = {"eigh", expect_eigh, .square = true, .has_b = true},
    [IR_LINALG_KIND_SVD] = {"svd", expect_svd, .has_b = true, .has_c = true},
    [IR_LINALG_KIND_EXP] = {"exp", expect_square, .square = true},
};

static clave_status op_linalg_check_outputs(const kind_rule *rule, const ir_linalg *op) {
  const struct {
    uint32_t tid;
    bool taken;
    const char *what;
  } outputs[] = {
      {op->b, rule->has_b, "b"}, {op->c, rule->has_c, "c"}, {op->info, rule->has_info, "info"}};
  for (size_t i = 0; i < sizeof outputs / sizeof *outputs; i++)
    if (outputs[i].tid != IR_NONE && !outputs[i].taken)
      return INVALID("%s is given, the kind %s has none", outputs[i].what, rule->name);
  return NULL;
}

static clave_status check_square(int64_t m, int64_t n, const char *what) {
  return dim_matches(m, n) ? NULL
                           : INVALID("%s: expected as many rows as columns, got %lld and %lld",
                                     what, (long long)m, (long long)n);
}

clave_status rule_linalg(const rule_context *context, const void *op) {
  const ir_linalg *linalg = op;
  if ((uint32_t)linalg->kind >= IR_LINALG_KIND_COUNT)
    return INVALID("linalg kind %u is unknown", (uint32_t)linalg->kind);
  const kind_rule *rule = &kind_rules[linalg->kind];
  TRY(check_float(context, linalg->x, "x"));
  TRY(check_rank_at_least(context, linalg->x, "x", 2));
  TRY(op_linalg_check_outputs(rule, linalg));
  const tensor *tensor = rule_tensor(context, linalg->x);
  int64_t m = tensor->dims[tensor->rank - 2], n = tensor->dims[tensor->rank - 1];
  if (rule->square) TRY(check_square(m, n, "x"));
  return rule->expect(context, linalg, tensor, m, n);
}

clave_status rule_triangular_solve(const rule_context *context, const void *op) {
  const ir_triangular_solve *triangular_solve = op;
  const tensor *b = rule_tensor(context, triangular_solve->b),
               *a = rule_tensor(context, triangular_solve->a);
  TRY(check_float(context, triangular_solve->a, "a"));
  TRY(check_rank_at_least(context, triangular_solve->a, "a", 2));
  TRY(check_rank_at_least(context, triangular_solve->b, "b", 2));
  TRY(check_square(a->dims[a->rank - 2], a->dims[a->rank - 1], "a"));
  TRY(expect_last(context, triangular_solve->b, "b", a->type, a,
                  matrix(a->dims[a->rank - 1], b->dims[b->rank - 1])));
  return rule_expect_like(context, triangular_solve->out, "out", b);
}

clave_status rule_pivot_order(const rule_context *context, const void *op) {
  const ir_pivot_order *pivot_order = op;
  const tensor *pivots = rule_tensor(context, pivot_order->pivots),
               *out = rule_tensor(context, pivot_order->out);
  TRY(check_rank_at_least(context, pivot_order->pivots, "pivots", 1));
  TRY(check_rank_at_least(context, pivot_order->out, "out", 1));
  if (pivots->type != DTYPE_I32)
    return INVALID("pivots: expected I32, got %s", dtype_name(pivots->type));
  tensor tensor = *pivots;
  int64_t k = tensor.dims[tensor.rank - 1], m = out->dims[out->rank - 1];
  if (k != DIM_UNKNOWN && m != DIM_UNKNOWN && k > m)
    return INVALID("pivots has %lld of %lld rows", (long long)k, (long long)m);
  tensor.type = DTYPE_I64;
  tensor.dims[tensor.rank - 1] = m;
  return rule_expect_like(context, pivot_order->out, "out", &tensor);
}

/* ---------------------------------------------------------------- descriptions */

void describe_linalg(const node *node, linalg_desc *desc) {
  const ir_linalg *op = node->instruction->op;
  *desc = (linalg_desc){.kind = op->kind,
                        .upper = op->upper,
                        .x = &node->tensors[op->x],
                        .out = &node->tensors[op->out],
                        .b = operand_of(node, op->b),
                        .c = operand_of(node, op->c),
                        .info = operand_of(node, op->info)};
  const tensor *tensor = &desc->x->tensor;
  desc->batches = count_dims(tensor, 0, tensor->rank - 2);
  desc->m = tensor->dims[tensor->rank - 2];
  desc->n = tensor->dims[tensor->rank - 1];
}

void describe_triangular_solve(const node *node, triangular_solve_desc *desc) {
  const ir_triangular_solve *op = node->instruction->op;
  *desc = (triangular_solve_desc){.a = &node->tensors[op->a],
                                  .b = &node->tensors[op->b],
                                  .out = &node->tensors[op->out],
                                  .upper = op->upper,
                                  .unit = op->unit};
  const tensor *tensor = &desc->b->tensor;
  desc->batches = count_dims(tensor, 0, tensor->rank - 2);
  desc->m = tensor->dims[tensor->rank - 2];
  desc->n = tensor->dims[tensor->rank - 1];
}

void describe_pivot_order(const node *node, pivot_order_desc *desc) {
  const ir_pivot_order *op = node->instruction->op;
  *desc = (pivot_order_desc){.pivots = &node->tensors[op->pivots], .out = &node->tensors[op->out]};
  const tensor *pivots = &desc->pivots->tensor;
  desc->batches = count_dims(pivots, 0, pivots->rank - 1);
  desc->k = pivots->dims[pivots->rank - 1];
  desc->m = desc->out->tensor.dims[desc->out->tensor.rank - 1];
}
