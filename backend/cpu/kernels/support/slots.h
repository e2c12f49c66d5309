#ifndef BACKEND_CPU_KERNELS_SUPPORT_SLOTS_H
#define BACKEND_CPU_KERNELS_SUPPORT_SLOTS_H
/* Runs independent tasks on several threads. Each thread has its own scratch memory. */
#include "base/kernel.h"

typedef void (*slot_task)(const void *user, int64_t task,
                          char *scratch /* (scratch_size), 64-byte aligned */);

/* Runs tasks 0 .. n_tasks - 1 in any order, on at most n_threads, n_tasks and `work` threads. work:
 * number of threads that the tasks justify. Returns false, before any task runs, if scratch memory
 * is exhausted. */
bool run_slots(const kernel_context *ctx, int64_t n_tasks, int64_t work, size_t scratch_size,
               slot_task run, const void *user);

/* Returns the scratch bytes that run_slots requests: a multiple of 64. */
size_t slots_bytes(const kernel_context *ctx, int64_t n_tasks, int64_t work, size_t scratch_size);
/* Works like run_slots, in slots_bytes() bytes of the caller's memory. */
void run_slots_in(const kernel_context *ctx, int64_t n_tasks, int64_t work, size_t scratch_size,
                  slot_task run, const void *user, char *scratch);

#endif
