/* Threads of an emitted program, by the library's thread pool. */
#include "compile/runtime/pool.h"

#include "base/threads.h"

static void runtime_pool_run_parallel(void *pool, int64_t n, int64_t grain, kernel_body body,
                                      void *ctx) {
  const model *model = pool;
  thread_pool_for_some(model->pool, model->kernel.n_threads, n, grain, body, ctx);
}

static clave_status create_pool(model *model, int n_threads) {
  thread_pool *pool;
  TRY(thread_pool_create(n_threads, &pool));
  model->pool = pool;
  model->kernel.parallel_for = runtime_pool_run_parallel;
  model->kernel.n_threads = thread_pool_size(pool);
  return NULL;
}

static void runtime_pool_destroy(model *model) { thread_pool_destroy(model->pool); }

const model_threads model_pool = {.create = create_pool, .destroy = runtime_pool_destroy};
