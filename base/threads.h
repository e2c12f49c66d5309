#ifndef BASE_THREADS_H
#define BASE_THREADS_H
/* Mutexes, one-time initialisation, threads, and a pool for parallel loops. Only base/ uses
 * pthread. */
#include <stdbool.h>
#include <stdint.h>

#include "base/kernel.h"
#include "base/status.h"

/* Runs init once, on the first thread to call it; other threads wait for it. Zero-initialised. */
typedef struct once {
  int state;
} once;
void once_run(once *once, void (*init)(void));

typedef struct mutex mutex;
clave_status mutex_create(mutex **out) STATUS_CHECK;
void mutex_destroy(mutex *mutex); /* accepts NULL */
void mutex_lock(mutex *mutex);
bool mutex_try_lock(mutex *mutex); /* returns false if another thread holds it */
/* Returns false if another thread held the mutex during all of timeout_ms. */
bool mutex_lock_within(mutex *mutex, int timeout_ms);
void mutex_unlock(mutex *mutex);

/* An event, initially closed. Any thread may open or close it; any number can wait for it to
 * open. */
typedef struct wait_event wait_event;
clave_status wait_event_create(wait_event **out) STATUS_CHECK;
void wait_event_destroy(wait_event *event); /* accepts NULL */
void wait_event_set(wait_event *event, bool open);
/* Returns false if the event stayed closed for timeout_ms; a negative timeout is no limit. */
bool wait_event_wait(wait_event *event, int timeout_ms);

/* A thread that runs body(ctx) once. Signals are left to the process's other threads. */
typedef struct thread thread;
clave_status thread_create(void (*body)(void *ctx), void *ctx, thread **out) STATUS_CHECK;
/* False if this process was forked after the thread was made. */
bool thread_is_here(const thread *thread);
void thread_join(thread *thread); /* waits for its end and frees it; accepts NULL */

/* A pool of n_threads threads, of which the caller is one. If n_threads <= 0, the number is
 * CLAVE_THREADS, or that of the CPUs which the process may use; an invalid CLAVE_THREADS is an
 * error. Fewer workers are made if the system refuses threads. thread_pool_for may be called from
 * several threads at once, and from a body: one call gets the workers, the others run inline. */
typedef struct thread_pool thread_pool;
clave_status thread_pool_create(int n_threads, thread_pool **out) STATUS_CHECK;
void thread_pool_destroy(thread_pool *pool); /* accepts NULL */
int thread_pool_size(const thread_pool *pool);
/* Runs body over sub-ranges of [0, n) and returns when all are done. The length of each but the
 * last is a multiple of grain. If n <= grain, the caller runs body alone. */
void thread_pool_for(thread_pool *pool, int64_t n, int64_t grain, kernel_body body, void *ctx);
/* Works like thread_pool_for with at most n_threads threads of the pool. */
void thread_pool_for_some(thread_pool *pool, int n_threads, int64_t n, int64_t grain,
                          kernel_body body, void *ctx);

#endif
