/* Binary search: the number of boundaries below x, or with `right` not above it; a NaN x is above
 * all. */
#include "backend/cpu/kernels/search.h"

#include "backend/cpu/kernels/support/rows.h"

enum { GRAIN = 1024 };

typedef struct search_task {
  const kernel_context *ctx;
  const search_args *args;
  compute_type c;
} search_task;

static int64_t sorted_place(const search_task *task, int64_t row, int64_t i) {
  const search_args *args = task->args;
  const int64_t *sorter = args->sorter.data;
  if (!sorter) return row * args->n + i;
  int64_t at = sorter[row * args->n + i];
  if (at >= 0 && at < args->n) return row * args->n + at;
  kernel_fault_set(task->ctx->fault, KERNEL_FAULT_INDEX, at, 0, args->n - 1);
  return row * args->n;
}

static int64_t search_f64(const search_task *task, int64_t row, double x) {
  int64_t low = 0, high = task->args->n;
  while (low < high) {
    int64_t mid = low + (high - low) / 2;
    double b;
    load_row(COMPUTE_F64, task->args->boundaries.type,
             element_at(task->args->boundaries.data, task->args->boundaries.type,
                        sorted_place(task, row, mid)),
             1, 1, &b);
    if (task->args->right ? !(b > x) : !(b >= x))
      low = mid + 1;
    else
      high = mid;
  }
  return low;
}

static int64_t search_i64(const search_task *task, int64_t row, int64_t x) {
  int64_t low = 0, high = task->args->n;
  while (low < high) {
    int64_t mid = low + (high - low) / 2, b;
    load_row(COMPUTE_I64, task->args->boundaries.type,
             element_at(task->args->boundaries.data, task->args->boundaries.type,
                        sorted_place(task, row, mid)),
             1, 1, &b);
    if (task->args->right ? b <= x : b < x)
      low = mid + 1;
    else
      high = mid;
  }
  return low;
}

static void search_range(void *ctx, int64_t begin, int64_t end) {
  const search_task *task = ctx;
  const ktensor *x = &task->args->x, *out = &task->args->out;
  for (int64_t at = begin; at < end; at += ROW_BLOCK) {
    int64_t n = end - at < ROW_BLOCK ? end - at : ROW_BLOCK, found[ROW_BLOCK];
    row_block block;
    load_row(task->c, x->type, element_at(x->data, x->type, at), 1, n, &block);
    for (int64_t i = 0; i < n; i++) {
      int64_t row = task->args->shared ? 0 : (at + i) / task->args->per_row;
      found[i] = task->c == COMPUTE_I64 ? search_i64(task, row, block.i64[i])
                                        : search_f64(task, row, block.f64[i]);
    }
    store_row(COMPUTE_I64, out->type, element_at(out->data, out->type, at), 1, n, found);
  }
}

static bool search_sorted(const kernel_context *ctx, const void *args) {
  search_task task = {.ctx = ctx, .args = args};
  task.c = compute_type_of(task.args->x.type) == COMPUTE_I64 ? COMPUTE_I64 : COMPUTE_F64;
  ctx->parallel_for(ctx->pool, task.args->n_x, GRAIN, search_range, &task);
  return true;
}

const kernel_desc kernel_search_sorted = {
    .name = "search_sorted",
    .run = search_sorted,
    .args_size = sizeof(search_args),
    .operands = {OPERAND(search_args, boundaries), OPERAND(search_args, x),
                 OPERAND(search_args, sorter), OPERAND(search_args, out)}};
