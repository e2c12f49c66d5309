/* Embedding bags: a bag is summed in double, ROW_BLOCK columns at a time, and rounded once. */
#include "backend/cpu/kernels/embedding_bag.h"

#include "backend/cpu/kernels/elementwise/steps.h"
#include "backend/cpu/kernels/index.h"
#include "backend/cpu/kernels/support/rows.h"

enum { GRAIN = 16 * 1024 /* elements that justify waking a thread */ };

typedef struct bag_task {
  const kernel_context *ctx;
  const embedding_bag_args *args;
} bag_task;

static int64_t checked(const bag_task *task, int64_t i, int64_t low, int64_t high) {
  if (i >= low && i <= high) return i;
  kernel_fault_set(task->ctx->fault, KERNEL_FAULT_INDEX, i, low, high);
  return -1;
}

/* Returns the start of bag b, which is the end of the previous one, or -1 if it is out of range.
 * The first bag must start at 0. */
static int64_t bag_start(const bag_task *task, int64_t b) {
  const embedding_bag_args *args = task->args;
  int64_t n = args->indices.dims[0];
  if (b == args->offsets.dims[0]) return n;
  return checked(task, load_index(&args->offsets, b * args->offsets.strides[0]), 0, b == 0 ? 0 : n);
}

/* Returns the table row of entry i, or -1 if the entry is skipped or out of range. */
static int64_t bag_row(const bag_task *task, int64_t i) {
  const embedding_bag_args *args = task->args;
  int64_t row = checked(task, load_index(&args->indices, i * args->indices.strides[0]), 0,
                        args->weight.dims[0] - 1);
  return args->skips && row == args->skipped ? -1 : row;
}

static double bag_factor(const embedding_bag_args *args, int64_t i) {
  double f = 1;
  if (args->factors.data)
    load_row(COMPUTE_F64, args->factors.type,
             element_at(args->factors.data, args->factors.type, i * args->factors.strides[0]), 1, 1,
             &f);
  return f;
}

/* Reduces columns [from, from + n) of bag b. */
static void reduce_bag(const bag_task *task, int64_t b, int64_t from, int64_t n) {
  const embedding_bag_args *args = task->args;
  int64_t first = bag_start(task, b), end = bag_start(task, b + 1), count = 0;
  double total[ROW_BLOCK] = {0}, row[ROW_BLOCK];
  for (int64_t i = first; first >= 0 && i < end; i++) {
    int64_t r = bag_row(task, i);
    if (r < 0) continue;
    double factor = bag_factor(args, i);
    load_row(COMPUTE_F64, args->weight.type,
             element_at(args->weight.data, args->weight.type,
                        r * args->weight.strides[0] + from * args->weight.strides[1]),
             args->weight.strides[1], n, row);
    for (int64_t k = 0; k < n; k++)
      total[k] = args->kind != KBAG_MAX ? total[k] + factor * row[k]
                 : count == 0           ? row[k]
                                        : step_max_f64(total[k], row[k]);
    count++;
  }
  for (int64_t k = 0; k < n && args->kind == KBAG_MEAN && count > 0; k++) total[k] /= (double)count;
  store_row(COMPUTE_F64, args->out.type,
            element_at(args->out.data, args->out.type, b * args->out.dims[1] + from), 1, n, total);
}

static void reduce_bags(void *ctx, int64_t begin, int64_t end) {
  const bag_task *task = ctx;
  int64_t dim = task->args->out.dims[1];
  for (int64_t b = begin; b < end; b++)
    for (int64_t from = 0; from < dim; from += ROW_BLOCK)
      reduce_bag(task, b, from, dim - from < ROW_BLOCK ? dim - from : ROW_BLOCK);
}

static bool embedding_bag(const kernel_context *ctx, const void *args) {
  const embedding_bag_args *own = args;
  bag_task task = {ctx, own};
  int64_t bags = own->out.dims[0], entries = own->indices.dims[0] * own->out.dims[1];
  if (bags == 0) return true;
  ctx->parallel_for(ctx->pool, bags, GRAIN / (entries / bags + 1) + 1, reduce_bags, &task);
  return true;
}

const kernel_desc kernel_embedding_bag = {
    .name = "embedding_bag",
    .run = embedding_bag,
    .args_size = sizeof(embedding_bag_args),
    .operands = {OPERAND(embedding_bag_args, weight), OPERAND(embedding_bag_args, indices),
                 OPERAND(embedding_bag_args, offsets), OPERAND(embedding_bag_args, factors),
                 OPERAND(embedding_bag_args, out)}};
