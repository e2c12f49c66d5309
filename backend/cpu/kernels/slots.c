/* Tasks with per-thread scratch: one slot per thread, which takes the next task until none is left.
 */
#include "backend/cpu/kernels/slots.h"

typedef struct slot_loop {
  slot_task run;
  const void *user;
  int64_t n_tasks, next;
  char *scratch;
  size_t scratch_size;
} slot_loop;

static void run_slot_range(void *ctx, int64_t begin, int64_t end) {
  slot_loop *l = ctx;
  for (int64_t slot = begin; slot < end; slot++) {
    char *scratch = l->scratch + (size_t)slot * l->scratch_size;
    for (;;) {
      int64_t task = __atomic_fetch_add(&l->next, 1, __ATOMIC_RELAXED);
      if (task >= l->n_tasks) break;
      l->run(l->user, task, scratch);
    }
  }
}

bool run_slots(const kernel_context *ctx, int64_t n_tasks, int64_t work, size_t scratch_size,
               slot_task run, const void *user) {
  if (n_tasks <= 0) return true;
  int64_t n = ctx->n_threads;
  if (n > n_tasks) n = n_tasks;
  if (n > work) n = work;
  if (n < 1) n = 1;
  slot_loop l = {.run = run, .user = user, .n_tasks = n_tasks};
  l.scratch_size = (scratch_size + 63) / 64 * 64;
  size_t bytes;
  if (__builtin_mul_overflow((size_t)n, l.scratch_size, &bytes)) return false;
  l.scratch = bytes > 0 ? ctx->scratch(ctx->pool, bytes) : NULL;
  if (bytes > 0 && !l.scratch) return false;
  ctx->parallel_for(ctx->pool, n, 1, run_slot_range, &l);
  return true;
}
