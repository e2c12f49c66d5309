/* Nonzero counts per chunk. Then each chunk writes its positions after those of earlier chunks. */
#include "backend/cpu/kernels/nonzero.h"

#include <string.h>

#include "backend/cpu/kernels/support/walk.h"

enum { CHUNK = 16 * 1024 };

typedef struct nonzero_task {
  const ktensor *x;
  int64_t n;       /* elements of x */
  int64_t *before; /* (chunks) counts, then their exclusive sums */
  int64_t *positions;
} nonzero_task;

/* Tests bits: a float zero may have any sign; subnormal numbers and NaN are nonzero. */
static bool is_nonzero(const ktensor *x, int64_t i) {
  int sign = dtype_is_float(x->type);
  switch (dtype_size(x->type)) {
    case 1:
      return ((const uint8_t *)x->data)[i] != 0;
    case 2:
      return (uint16_t)(((const uint16_t *)x->data)[i] << sign) != 0;
    case 4:
      return ((const uint32_t *)x->data)[i] << sign != 0;
    default:
      return ((const uint64_t *)x->data)[i] << sign != 0;
  }
}

static void count_chunks(void *ctx, int64_t begin, int64_t end) {
  const nonzero_task *task = ctx;
  for (int64_t c = begin; c < end; c++) {
    int64_t found = 0, last = (c + 1) * CHUNK < task->n ? (c + 1) * CHUNK : task->n;
    for (int64_t i = c * CHUNK; i < last; i++) found += is_nonzero(task->x, i);
    task->before[c] = found;
  }
}

static void write_chunks(void *ctx, int64_t begin, int64_t end) {
  const nonzero_task *task = ctx;
  walk w = {.rank = task->x->rank, .dims = task->x->dims};
  for (int64_t c = begin; c < end; c++) {
    int64_t last = (c + 1) * CHUNK < task->n ? (c + 1) * CHUNK : task->n;
    int64_t *to = task->positions + task->before[c] * task->x->rank;
    walk_seek(&w, c * CHUNK);
    for (int64_t i = c * CHUNK; i < last; i++, walk_next(&w)) {
      if (!is_nonzero(task->x, i)) continue;
      for (int d = 0; d < task->x->rank; d++) *to++ = w.index[d];
    }
  }
}

static int64_t count_of_chunks(const nonzero_args *args) { return (args->n + CHUNK - 1) / CHUNK; }

static size_t counts_size(const nonzero_args *args) {
  return (size_t)count_of_chunks(args) * sizeof(int64_t);
}

static size_t nonzero_scratch(const kernel_context *ctx, const void *args) {
  (void)ctx;
  return kernel_scratch_size(counts_size(args));
}

/* Replaces counts by their exclusive sums and returns the total. */
static int64_t add_up(int64_t *counts, int64_t n) {
  int64_t total = 0;
  for (int64_t i = 0; i < n; i++) {
    int64_t found = counts[i];
    counts[i] = total;
    total += found;
  }
  return total;
}

static bool nonzero(const kernel_context *ctx, const void *args) {
  const nonzero_args *own = args;
  nonzero_task task = {.x = &own->x, .n = own->n, .positions = own->out.data};
  int64_t chunks = count_of_chunks(own), rank = own->x.rank, *count = own->count.data;
  *count = 0;
  if (chunks == 0) return true;
  task.before = ctx->scratch(ctx->pool, counts_size(own));
  if (!task.before) return false;
  ctx->parallel_for(ctx->pool, chunks, 1, count_chunks, &task);
  *count = add_up(task.before, chunks);
  ctx->parallel_for(ctx->pool, chunks, 1, write_chunks, &task);
  if (rank > 0 && *count < task.n)
    memset(task.positions + *count * rank, 0, (size_t)((task.n - *count) * rank) * sizeof(int64_t));
  return true;
}

const kernel_desc kernel_nonzero = {
    .name = "nonzero",
    .run = nonzero,
    .scratch = nonzero_scratch,
    .args_size = sizeof(nonzero_args),
    .operands = {OPERAND(nonzero_args, x), OPERAND(nonzero_args, out),
                 OPERAND(nonzero_args, count)}};
