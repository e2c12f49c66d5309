/* Running folds, row by row in blocks. */
#include "backend/cpu/kernels/cumulate.h"

#include <math.h>

#include "backend/cpu/kernels/rows.h"
#include "backend/cpu/kernels/walk.h"

typedef struct cumulate_task {
  kcumulate_kind kind;
  compute_class c; /* COMPUTE_F64 or COMPUTE_I64 */
  const ktensor *x, *out, *indices;
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
  const ktensor *x = t->x, *out = t->out;
  int last = x->rank - 1;
  running r = start(t->kind);
  row_block row;
  int64_t at[ROW_BLOCK];
  for (int64_t k = 0; k < x->dims[last]; k += ROW_BLOCK) {
    int64_t n = x->dims[last] - k < ROW_BLOCK ? x->dims[last] - k : ROW_BLOCK;
    load_row(t->c, x->type, element_at(from, x->type, k * x->strides[last]), x->strides[last], n,
             &row);
    if (t->c == COMPUTE_I64) {
      fold_i64(t->kind, &r, row.i64, n, k, at);
    } else {
      fold_f64(t->kind, &r, row.f64, n, k, at);
    }
    store_row(t->c, out->type, element_at(to, out->type, k * out->strides[last]),
              out->strides[last], n, &row);
    for (int64_t i = 0; i < n && indices; i++) indices[(k + i) * t->indices->strides[last]] = at[i];
  }
}

static void cumulate_rows(void *ctx, int64_t begin, int64_t end) {
  const cumulate_task *t = ctx;
  walk w = {.rank = t->x->rank - 1, .dims = t->x->dims};
  walk_add(&w, t->x->strides);
  walk_add(&w, t->out->strides);
  if (t->indices) walk_add(&w, t->indices->strides);
  walk_seek(&w, begin);
  for (int64_t r = begin; r < end; r++, walk_next(&w))
    cumulate_row(t, element_at(t->x->data, t->x->type, w.offset[0]),
                 element_at(t->out->data, t->out->type, w.offset[1]),
                 t->indices ? (int64_t *)t->indices->data + w.offset[2] : NULL);
}

void kernel_cumulate(const kernel_context *ctx, kcumulate_kind kind, const ktensor *x,
                     const ktensor *out, const ktensor *indices) {
  int64_t n = ktensor_numel(x);
  if (n == 0) return;
  cumulate_task t = {.kind = kind, .x = x, .out = out, .indices = indices};
  t.c = compute_class_of(x->type) == COMPUTE_I64 ? COMPUTE_I64 : COMPUTE_F64;
  int64_t row = x->dims[x->rank - 1];
  ctx->parallel_for(ctx->pool, n / row, 16 * 1024 / row + 1, cumulate_rows, &t);
}
