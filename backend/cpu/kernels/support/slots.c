/* Tasks with per-thread scratch memory. Each thread has a slot; it runs the tasks of its own range,
 * then helps with the ranges of others. */
#include "backend/cpu/kernels/support/slots.h"

#include "base/counts.h"
#include "base/ranges.h"

/* Ranges are few, as a compiled program may have a small stack. More slots share these ranges. */
enum { MAX_RANGES = KERNEL_ALONE ? 1 : 16 };

typedef struct slot_loop {
  work_range ranges[MAX_RANGES];
  slot_task run;
  const void *user;
  int64_t n_tasks, n_ranges;
  int64_t items, each; /* units of the ranges; tasks per unit, 1 if counts allow it */
  char *scratch;
  size_t scratch_size;
} slot_loop;

static void run_slot_range(void *ctx, int64_t begin, int64_t end) {
  slot_loop *loop = ctx;
  for (int64_t slot = begin; slot < end; slot++) {
    char *scratch = loop->scratch + (size_t)slot * loop->scratch_size;
    const int64_t own = slot % loop->n_ranges;
    for (int64_t at = own, item;
         ranges_take(loop->ranges, loop->items, loop->n_ranges, own, &at, &item);) {
      const int64_t stop = min_i64(loop->n_tasks, (item + 1) * loop->each);
      for (int64_t task = item * loop->each; task < stop; task++)
        loop->run(loop->user, task, scratch);
    }
  }
}

static int64_t count_slots(const kernel_context *ctx, int64_t n_tasks, int64_t work) {
  int64_t n = ctx->n_threads;
  if (n > n_tasks) n = n_tasks;
  if (n > work) n = work;
  return n < 1 ? 1 : n;
}

size_t slots_bytes(const kernel_context *ctx, int64_t n_tasks, int64_t work, size_t scratch_size) {
  size_t bytes;
  if (n_tasks <= 0) return 0;
  if (__builtin_mul_overflow((size_t)count_slots(ctx, n_tasks, work),
                             kernel_scratch_size(scratch_size), &bytes))
    return SIZE_MAX / 2; /* more than any allocation */
  return bytes;
}

void run_slots_in(const kernel_context *ctx, int64_t n_tasks, int64_t work, size_t scratch_size,
                  slot_task run, const void *user, char *scratch) {
  if (n_tasks <= 0) return;
  const int64_t n = count_slots(ctx, n_tasks, work);
  slot_loop loop;
  loop.run = run;
  loop.user = user;
  loop.n_tasks = n_tasks;
  loop.n_ranges = min_i64(n, MAX_RANGES);
  loop.each = n_tasks / RANGE_ITEMS + 1;
  loop.items = ceil_div(n_tasks, loop.each);
  loop.scratch = scratch;
  loop.scratch_size = kernel_scratch_size(scratch_size);
  for (int64_t i = 0; i < loop.n_ranges; i++) loop.ranges[i].taken = 0;
  ctx->parallel_for(ctx->pool, n, 1, run_slot_range, &loop);
}

bool run_slots(const kernel_context *ctx, int64_t n_tasks, int64_t work, size_t scratch_size,
               slot_task run, const void *user) {
  size_t bytes = slots_bytes(ctx, n_tasks, work, scratch_size);
  char *scratch = bytes > 0 ? ctx->scratch(ctx->pool, bytes) : NULL;
  if (bytes > 0 && !scratch) return false;
  run_slots_in(ctx, n_tasks, work, scratch_size, run, user, scratch);
  return true;
}
