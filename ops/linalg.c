/* Linalg: LU, Cholesky, QR, eigenvalues, singular values, the matrix exponential; TriangularSolve;
 * PivotOrder. */
#include "ops/linalg.h"

#include "ops/rule_checks.h"

/* The sizes of the last dimensions of an output. */
typedef struct last_dims {
  int n;
  int64_t dims[2];
} last_dims;

/* Error unless the output, where present, has x's leading dimensions and these last ones. */
static clave_status expect_last(const rule_context *c, uint32_t tid, const char *what, dtype type,
                                const tensor *x, last_dims last) {
  if (tid == IR_NONE) return NULL;
  tensor t = *x;
  t.type = type;
  t.rank = x->rank - 2;
  for (int i = 0; i < last.n; i++) t.dims[t.rank++] = last.dims[i];
  return rule_expect_like(c, tid, what, &t);
}

static last_dims matrix(int64_t m, int64_t n) { return (last_dims){2, {m, n}}; }
static last_dims row(int64_t n) { return (last_dims){1, {n, 0}}; }

static int64_t least_dim(int64_t m, int64_t n) {
  if (m == 0 || n == 0) return 0;
  return m == DIM_UNKNOWN || n == DIM_UNKNOWN ? DIM_UNKNOWN : m < n ? m : n;
}

/* k, or m where the declared size is that. */
static int64_t chosen_size(int64_t declared, int64_t k, int64_t m) {
  return dim_matches(declared, k) ? k : m;
}

/* Dimension `back` from the end of a declared output; k where that has no such. */
static int64_t declared_size(const rule_context *c, uint32_t tid, int back, int64_t k) {
  if (tid == IR_NONE) return k;
  const tensor *t = rule_tensor(c, tid);
  return t->rank >= back ? t->dims[t->rank - back] : k;
}

static clave_status expect_lu(const rule_context *c, const ir_linalg *o, const tensor *x, int64_t m,
                              int64_t n) {
  TRY(expect_last(c, o->out, "out", x->type, x, matrix(m, n)));
  TRY(expect_last(c, o->b, "b", DTYPE_I32, x, row(least_dim(m, n))));
  return expect_last(c, o->info, "info", DTYPE_I32, x, (last_dims){0});
}

static clave_status expect_square(const rule_context *c, const ir_linalg *o, const tensor *x,
                                  int64_t m, int64_t n) {
  TRY(expect_last(c, o->out, "out", x->type, x, matrix(m, n)));
  return expect_last(c, o->info, "info", DTYPE_I32, x, (last_dims){0});
}

static clave_status expect_qr(const rule_context *c, const ir_linalg *o, const tensor *x, int64_t m,
                              int64_t n) {
  int64_t k = least_dim(m, n), j = chosen_size(declared_size(c, o->out, 2, k), k, m);
  TRY(expect_last(c, o->out, "out", x->type, x, matrix(j, n)));
  return expect_last(c, o->b, "b", x->type, x, matrix(m, j));
}

static clave_status expect_eigh(const rule_context *c, const ir_linalg *o, const tensor *x,
                                int64_t m, int64_t n) {
  TRY(expect_last(c, o->out, "out", x->type, x, row(n)));
  return expect_last(c, o->b, "b", x->type, x, matrix(m, n));
}

static clave_status expect_svd(const rule_context *c, const ir_linalg *o, const tensor *x,
                               int64_t m, int64_t n) {
  int64_t k = least_dim(m, n);
  TRY(expect_last(c, o->out, "out", x->type, x, row(k)));
  TRY(expect_last(c, o->b, "b", x->type, x,
                  matrix(m, chosen_size(declared_size(c, o->b, 1, k), k, m))));
  return expect_last(c, o->c, "c", x->type, x,
                     matrix(chosen_size(declared_size(c, o->c, 2, k), k, n), n));
}

/* What each kind writes, and whether it takes square matrices alone. */
typedef struct kind_rule {
  const char *name;
  clave_status (*expect)(const rule_context *c, const ir_linalg *o, const tensor *x, int64_t m,
                         int64_t n);
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

static clave_status check_outputs(const kind_rule *k, const ir_linalg *o) {
  const struct {
    uint32_t tid;
    bool taken;
    const char *what;
  } outputs[] = {{o->b, k->has_b, "b"}, {o->c, k->has_c, "c"}, {o->info, k->has_info, "info"}};
  for (size_t i = 0; i < sizeof outputs / sizeof *outputs; i++)
    if (outputs[i].tid != IR_NONE && !outputs[i].taken)
      return INVALID("%s is given, the kind %s has none", outputs[i].what, k->name);
  return NULL;
}

static clave_status check_square(int64_t m, int64_t n, const char *what) {
  return dim_matches(m, n) ? NULL
                           : INVALID("%s: expected as many rows as columns, got %lld and %lld",
                                     what, (long long)m, (long long)n);
}

clave_status rule_linalg(const rule_context *c, const void *op) {
  const ir_linalg *o = op;
  if ((uint32_t)o->kind >= IR_LINALG_KIND_COUNT)
    return INVALID("linalg kind %u is unknown", (uint32_t)o->kind);
  const kind_rule *k = &kind_rules[o->kind];
  TRY(check_float(c, o->x, "x"));
  TRY(check_rank_at_least(c, o->x, "x", 2));
  TRY(check_outputs(k, o));
  const tensor *x = rule_tensor(c, o->x);
  int64_t m = x->dims[x->rank - 2], n = x->dims[x->rank - 1];
  if (k->square) TRY(check_square(m, n, "x"));
  return k->expect(c, o, x, m, n);
}

clave_status rule_triangular_solve(const rule_context *c, const void *op) {
  const ir_triangular_solve *o = op;
  const tensor *b = rule_tensor(c, o->b), *a = rule_tensor(c, o->a);
  TRY(check_float(c, o->a, "a"));
  TRY(check_rank_at_least(c, o->a, "a", 2));
  TRY(check_rank_at_least(c, o->b, "b", 2));
  TRY(check_square(a->dims[a->rank - 2], a->dims[a->rank - 1], "a"));
  TRY(expect_last(c, o->b, "b", a->type, a, matrix(a->dims[a->rank - 1], b->dims[b->rank - 1])));
  return rule_expect_like(c, o->out, "out", b);
}

clave_status rule_pivot_order(const rule_context *c, const void *op) {
  const ir_pivot_order *o = op;
  const tensor *pivots = rule_tensor(c, o->pivots), *out = rule_tensor(c, o->out);
  TRY(check_rank_at_least(c, o->pivots, "pivots", 1));
  TRY(check_rank_at_least(c, o->out, "out", 1));
  if (pivots->type != DTYPE_I32)
    return INVALID("pivots: expected I32, got %s", dtype_name(pivots->type));
  tensor t = *pivots;
  int64_t k = t.dims[t.rank - 1], m = out->dims[out->rank - 1];
  if (k != DIM_UNKNOWN && m != DIM_UNKNOWN && k > m)
    return INVALID("pivots has %lld of %lld rows", (long long)k, (long long)m);
  t.type = DTYPE_I64;
  t.dims[t.rank - 1] = m;
  return rule_expect_like(c, o->out, "out", &t);
}

/* ---------------------------------------------------------------- descriptions */

void describe_linalg(const node *n, linalg_form *f) {
  const ir_linalg *op = n->instruction->op;
  *f = (linalg_form){.kind = op->kind,
                     .upper = op->upper,
                     .x = &n->tensors[op->x],
                     .out = &n->tensors[op->out],
                     .b = operand_of(n, op->b),
                     .c = operand_of(n, op->c),
                     .info = operand_of(n, op->info)};
  const tensor *x = &f->x->t;
  f->batches = count_dims(x, 0, x->rank - 2);
  f->m = x->dims[x->rank - 2];
  f->n = x->dims[x->rank - 1];
}

void describe_triangular_solve(const node *n, triangular_solve_form *f) {
  const ir_triangular_solve *op = n->instruction->op;
  *f = (triangular_solve_form){.a = &n->tensors[op->a],
                               .b = &n->tensors[op->b],
                               .out = &n->tensors[op->out],
                               .upper = op->upper,
                               .unit = op->unit};
  const tensor *b = &f->b->t;
  f->batches = count_dims(b, 0, b->rank - 2);
  f->m = b->dims[b->rank - 2];
  f->n = b->dims[b->rank - 1];
}

void describe_pivot_order(const node *n, pivot_order_form *f) {
  const ir_pivot_order *op = n->instruction->op;
  *f = (pivot_order_form){.pivots = &n->tensors[op->pivots], .out = &n->tensors[op->out]};
  const tensor *pivots = &f->pivots->t;
  f->batches = count_dims(pivots, 0, pivots->rank - 1);
  f->k = pivots->dims[pivots->rank - 1];
  f->m = f->out->t.dims[f->out->t.rank - 1];
}
