/* Running folds, row by row in blocks. */
#include "backend/cpu/kernels/cumulate.h"

#include <math.h>

#include "backend/cpu/kernels/support/rows.h"
#include "backend/cpu/kernels/support/walk.h"

enum { GRAIN = 16 * 1024 /* elements worth a thread */ };

typedef struct cumulate_task {
  const cumulate_args *p;
  compute_class c; /* COMPUTE_F64 or COMPUTE_I64 */
} cumulate_task;

/* The fold so far. logsumexp: f is the greatest x, sum that of exp(x - f). */
typedef struct running {
  double f, sum;
  int64_t i, at;
  bool started;
} running;

static double add_exponential(running *r, double x) {
  double top = isnan(r->f) || r->f >= x ? r->f : x;
  r->sum = isfinite(top) ? r->sum * exp(r->f - top) + exp(x - top) : 0;
  r->f = top;
  return isfinite(top) ? top + log(r->sum) : top;
}

/* Whether x, the element after those seen, is the extreme now. */
static bool takes_f64(const running *r, bool least, double x) {
  return !r->started || isnan(x) || (!isnan(r->f) && (least ? x <= r->f : x >= r->f));
}
static bool takes_i64(const running *r, bool least, int64_t x) {
  return !r->started || (least ? x <= r->i : x >= r->i);
}

/* x[i] becomes the fold up to there; at[i] the place of the extreme. first: the place of x[0]. */
static void fold_f64(kcumulate_kind kind, running *r, double *x, int64_t n, int64_t first,
                     int64_t *at) {
  for (int64_t i = 0; i < n && kind == KCUMULATE_SUM; i++) x[i] = r->f += x[i];
  for (int64_t i = 0; i < n && kind == KCUMULATE_PROD; i++) x[i] = r->f *= x[i];
  for (int64_t i = 0; i < n && kind == KCUMULATE_LOGSUMEXP; i++) x[i] = add_exponential(r, x[i]);
  if (kind != KCUMULATE_MAX && kind != KCUMULATE_MIN) return;
  for (int64_t i = 0; i < n; i++) {
    if (takes_f64(r, kind == KCUMULATE_MIN, x[i])) {
      r->f = x[i];
      r->at = first + i;
      r->started = true;
    }
    x[i] = r->f;
    at[i] = r->at;
  }
}

static void fold_i64(kcumulate_kind kind, running *r, int64_t *x, int64_t n, int64_t first,
                     int64_t *at) {
  for (int64_t i = 0; i < n && kind == KCUMULATE_SUM; i++)
    x[i] = r->i = (int64_t)((uint64_t)r->i + (uint64_t)x[i]);
  for (int64_t i = 0; i < n && kind == KCUMULATE_PROD; i++)
    x[i] = r->i = (int64_t)((uint64_t)r->i * (uint64_t)x[i]);
  if (kind != KCUMULATE_MAX && kind != KCUMULATE_MIN) return;
  for (int64_t i = 0; i < n; i++) {
    if (takes_i64(r, kind == KCUMULATE_MIN, x[i])) {
      r->i = x[i];
      r->at = first + i;
      r->started = true;
    }
    x[i] = r->i;
    at[i] = r->at;
  }
}

static running start(kcumulate_kind kind) {
  running r = {0};
  if (kind == KCUMULATE_PROD) r.f = 1, r.i = 1;
  if (kind == KCUMULATE_LOGSUMEXP) r.f = -INFINITY;
  return r;
}

/* indices: NULL, or the row's. */
static void cumulate_row(const cumulate_task *t, const char *from, char *to, int64_t *indices) {
  const cumulate_args *p = t->p;
  dtype x = p->x.type, out = p->out.type;
  int64_t step = p->x.strides[p->x.rank - 1], out_step = p->out.strides[p->out.rank - 1];
  running r = start(p->kind);
  row_block row;
  int64_t at[ROW_BLOCK];
  for (int64_t k = 0; k < p->row; k += ROW_BLOCK) {
    int64_t n = p->row - k < ROW_BLOCK ? p->row - k : ROW_BLOCK;
    load_row(t->c, x, element_at(from, x, k * step), step, n, &row);
    if (t->c == COMPUTE_I64) {
      fold_i64(p->kind, &r, row.i64, n, k, at);
    } else {
      fold_f64(p->kind, &r, row.f64, n, k, at);
    }
    store_row(t->c, out, element_at(to, out, k * out_step), out_step, n, &row);
    for (int64_t i = 0; i < n && indices; i++) indices[(k + i) * out_step] = at[i];
  }
}

static void cumulate_rows(void *ctx, int64_t begin, int64_t end) {
  const cumulate_task *t = ctx;
  const ktensor *x = &t->p->x, *out = &t->p->out;
  int64_t *indices = t->p->indices.data;
  walk w = {.rank = x->rank - 1, .dims = x->dims};
  walk_add(&w, x->strides);
  walk_add(&w, out->strides);
  walk_seek(&w, begin);
  for (int64_t r = begin; r < end; r++, walk_next(&w))
    cumulate_row(t, element_at(x->data, x->type, w.offset[0]),
                 element_at(out->data, out->type, w.offset[1]),
                 indices ? indices + w.offset[1] : NULL);
}

static bool cumulate(const kernel_context *ctx, const void *args) {
  cumulate_task t = {.p = args};
  t.c = compute_class_of(t.p->x.type) == COMPUTE_I64 ? COMPUTE_I64 : COMPUTE_F64;
  if (t.p->row > 0)
    ctx->parallel_for(ctx->pool, t.p->n_rows, GRAIN / t.p->row + 1, cumulate_rows, &t);
  return true;
}

const kernel_desc kernel_cumulate = {
    .name = "cumulate",
    .run = cumulate,
    .args_size = sizeof(cumulate_args),
    .operands = {OPERAND(cumulate_args, x), OPERAND(cumulate_args, out),
                 OPERAND(cumulate_args, indices)}};
