/* Threads of a program that is written out, as the library has them. */
#include "compile/runtime/pool.h"

#include "base/threads.h"

static void run_parallel(void *pool, int64_t n, int64_t grain, kernel_body body, void *ctx) {
  const model *m = pool;
  thread_pool_for_some(m->pool, m->kernel.n_threads, n, grain, body, ctx);
}

static clave_status create_pool(model *m, int n_threads) {
  thread_pool *pool;
  TRY(thread_pool_create(n_threads, &pool));
  m->pool = pool;
  m->kernel.parallel_for = run_parallel;
  m->kernel.n_threads = thread_pool_size(pool);
  return NULL;
}

static void destroy_pool(model *m) { thread_pool_destroy(m->pool); }

const model_threads model_pool = {.create = create_pool, .destroy = destroy_pool};
