/* Running folds, row by row in blocks. */
#include "backend/cpu/kernels/cumulate.h"

#include <math.h>

#include "backend/cpu/kernels/support/rows.h"
#include "backend/cpu/kernels/support/walk.h"

enum { GRAIN = 16 * 1024 /* elements that justify waking a thread */ };

typedef struct cumulate_task {
  const cumulate_args *args;
  compute_type c; /* COMPUTE_F64 or COMPUTE_I64 */
} cumulate_task;

/* The fold so far. logsumexp: f is the greatest x, sum is the sum of exp(x - f). */
typedef struct running {
  double f, sum;
  int64_t i, at;
  bool started;
} running;

static double add_exponential(running *run, double x) {
  double top = isnan(run->f) || run->f >= x ? run->f : x;
  run->sum = isfinite(top) ? run->sum * exp(run->f - top) + exp(x - top) : 0;
  run->f = top;
  return isfinite(top) ? top + log(run->sum) : top;
}

/* True if x, the next element, is the new extreme. */
static bool accepts_f64(const running *run, bool least, double x) {
  return !run->started || isnan(x) || (!isnan(run->f) && (least ? x <= run->f : x >= run->f));
}
static bool accepts_i64(const running *run, bool least, int64_t x) {
  return !run->started || (least ? x <= run->i : x >= run->i);
}

/* Replaces x[i] by the fold up to it; at[i]: receives the extreme's position. first: position of
 * * x[0]. */
static void fold_f64(kcumulate_kind kind, running *run, double *x, int64_t n, int64_t first,
                     int64_t *at) {
  for (int64_t i = 0; i < n && kind == KCUMULATE_SUM; i++) x[i] = run->f += x[i];
  for (int64_t i = 0; i < n && kind == KCUMULATE_PROD; i++) x[i] = run->f *= x[i];
  for (int64_t i = 0; i < n && kind == KCUMULATE_LOGSUMEXP; i++) x[i] = add_exponential(run, x[i]);
  if (kind != KCUMULATE_MAX && kind != KCUMULATE_MIN) return;
  for (int64_t i = 0; i < n; i++) {
    if (accepts_f64(run, kind == KCUMULATE_MIN, x[i])) {
      run->f = x[i];
      run->at = first + i;
      run->started = true;
    }
    x[i] = run->f;
    at[i] = run->at;
  }
}

static void fold_i64(kcumulate_kind kind, running *run, int64_t *x, int64_t n, int64_t first,
                     int64_t *at) {
  for (int64_t i = 0; i < n && kind == KCUMULATE_SUM; i++)
    x[i] = run->i = (int64_t)((uint64_t)run->i + (uint64_t)x[i]);
  for (int64_t i = 0; i < n && kind == KCUMULATE_PROD; i++)
    x[i] = run->i = (int64_t)((uint64_t)run->i * (uint64_t)x[i]);
  if (kind != KCUMULATE_MAX && kind != KCUMULATE_MIN) return;
  for (int64_t i = 0; i < n; i++) {
    if (accepts_i64(run, kind == KCUMULATE_MIN, x[i])) {
      run->i = x[i];
      run->at = first + i;
      run->started = true;
    }
    x[i] = run->i;
    at[i] = run->at;
  }
}

static running kernel_cumulate_start(kcumulate_kind kind) {
  running run = {0};
  if (kind == KCUMULATE_PROD) run.f = 1, run.i = 1;
  if (kind == KCUMULATE_LOGSUMEXP) run.f = -INFINITY;
  return run;
}

/* indices: those of the row, or NULL. */
static void cumulate_row(const cumulate_task *task, const char *from, char *to, int64_t *indices) {
  const cumulate_args *args = task->args;
  dtype x = args->x.type, out = args->out.type;
  int64_t stride = args->x.strides[args->x.rank - 1],
          out_stride = args->out.strides[args->out.rank - 1];
  running run = kernel_cumulate_start(args->kind);
  row_block row;
  int64_t at[ROW_BLOCK];
  for (int64_t k = 0; k < args->row; k += ROW_BLOCK) {
    int64_t n = args->row - k < ROW_BLOCK ? args->row - k : ROW_BLOCK;
    load_row(task->c, x, element_at(from, x, k * stride), stride, n, &row);
    if (task->c == COMPUTE_I64) {
      fold_i64(args->kind, &run, row.i64, n, k, at);
    } else {
      fold_f64(args->kind, &run, row.f64, n, k, at);
    }
    store_row(task->c, out, element_at(to, out, k * out_stride), out_stride, n, &row);
    for (int64_t i = 0; i < n && indices; i++) indices[(k + i) * out_stride] = at[i];
  }
}

static void cumulate_rows(void *ctx, int64_t begin, int64_t end) {
  const cumulate_task *task = ctx;
  const ktensor *x = &task->args->x, *out = &task->args->out;
  int64_t *indices = task->args->indices.data;
  walk w = {.rank = x->rank - 1, .dims = x->dims};
  walk_add(&w, x->strides);
  walk_add(&w, out->strides);
  walk_seek(&w, begin);
  for (int64_t r = begin; r < end; r++, walk_next(&w))
    cumulate_row(task, element_at(x->data, x->type, w.offset[0]),
                 element_at(out->data, out->type, w.offset[1]),
                 indices ? indices + w.offset[1] : NULL);
}

static bool cumulate(const kernel_context *ctx, const void *args) {
  cumulate_task task = {.args = args};
  task.c = compute_type_of(task.args->x.type) == COMPUTE_I64 ? COMPUTE_I64 : COMPUTE_F64;
  if (task.args->row > 0)
    ctx->parallel_for(ctx->pool, task.args->n_rows, GRAIN / task.args->row + 1, cumulate_rows,
                      &task);
  return true;
}

const kernel_desc kernel_cumulate = {
    .name = "cumulate",
    .run = cumulate,
    .args_size = sizeof(cumulate_args),
    .operands = {OPERAND(cumulate_args, x), OPERAND(cumulate_args, out),
                 OPERAND(cumulate_args, indices)}};
