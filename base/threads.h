#ifndef BASE_THREADS_H
#define BASE_THREADS_H
/* Mutexes, one-time initialisation, threads and a pool for parallel loops: the only user of
 * pthread. */
#include <stdbool.h>
#include <stdint.h>

#include "base/kernel.h"
#include "base/status.h"

/* Runs init once, whichever thread comes first; the others wait for it. Zero-initialised. */
typedef struct once {
  int state;
} once;
void once_run(once *once, void (*init)(void));

typedef struct mutex mutex;
clave_status mutex_create(mutex **out) STATUS_CHECK;
void mutex_destroy(mutex *mutex); /* takes NULL */
void mutex_lock(mutex *mutex);
bool mutex_try_lock(mutex *mutex); /* false: another thread has it */
bool mutex_lock_within(mutex *mutex,
                       int timeout_ms); /* false: another thread has had it for so long */
void mutex_unlock(mutex *mutex);

/* Closed at first. Any thread opens and closes it; any number wait until it is open. */
typedef struct wait_event wait_event;
clave_status wait_event_create(wait_event **out) STATUS_CHECK;
void wait_event_destroy(wait_event *event); /* takes NULL */
void wait_event_set(wait_event *event, bool open);
bool wait_event_wait(wait_event *event,
                     int timeout_ms); /* false: it stayed closed for so long; < 0: no limit */

/* A thread that runs body(ctx) once. Signals are left to the process's other threads. */
typedef struct thread thread;
clave_status thread_create(void (*body)(void *ctx), void *ctx, thread **out) STATUS_CHECK;
bool thread_is_here(const thread *thread); /* false: this process was forked after it was made */
void thread_join(thread *thread);          /* waits for its end and frees it; takes NULL */

/* A pool of n_threads workers (the caller counts as one). n_threads <= 0: CLAVE_THREADS, else the
 * CPUs the process may use; an invalid CLAVE_THREADS is an error. Fewer workers are made when the
 * system refuses threads. thread_pool_for may be called from several threads at once, and from a
 * body: one gets the workers, the others run inline. */
typedef struct thread_pool thread_pool;
clave_status thread_pool_create(int n_threads, thread_pool **out) STATUS_CHECK;
void thread_pool_destroy(thread_pool *pool); /* takes NULL */
int thread_pool_size(const thread_pool *pool);
/* Runs body over sub-ranges of [0, n), each a multiple of grain long except the last; inline when n
 * <= grain. */
void thread_pool_for(thread_pool *pool, int64_t n, int64_t grain, kernel_body body, void *ctx);
/* Likewise in n_threads ranges at most, where those are fewer than the pool has. */
void thread_pool_for_some(thread_pool *pool, int n_threads, int64_t n, int64_t grain,
                          kernel_body body, void *ctx);

#endif
