#ifndef BACKEND_CPU_KERNELS_SUPPORT_SLOTS_H
#define BACKEND_CPU_KERNELS_SUPPORT_SLOTS_H
/* Independent tasks on several threads, each thread with scratch memory of its own. */
#include "base/kernel.h"

typedef void (*slot_task)(const void *user, int64_t task,
                          char *scratch /* (scratch_size), 64-byte aligned */);

/* Runs task 0 .. n_tasks - 1, in any order, on as many threads as `work` (in GRAIN_* units of the
 * caller: 1 = worth one thread) says. False when scratch memory is out; then nothing has run. */
bool run_slots(const kernel_context *ctx, int64_t n_tasks, int64_t work, size_t scratch_size,
               slot_task run, const void *user);

/* The scratch memory that run_slots asks for: a multiple of 64. */
size_t slots_bytes(const kernel_context *ctx, int64_t n_tasks, int64_t work, size_t scratch_size);
/* The same in memory of the caller's (slots_bytes). */
void run_slots_in(const kernel_context *ctx, int64_t n_tasks, int64_t work, size_t scratch_size,
                  slot_task run, const void *user, char *scratch);

#endif
