/* Threads of a program that is written out, as the library has them. */
#include "compile/runtime/pool.h"

#include "base/threads.h"

static void run_parallel(void *pool, int64_t n, int64_t grain, kernel_body body, void *ctx) {
  const model *m = pool;
  if (n <= 0) return;
  const int64_t each = (n + m->kernel.n_threads - 1) / m->kernel.n_threads;
  if (grain < each && m->kernel.n_threads < thread_pool_size(m->pool)) grain = each;
  if (n <= grain) {
    body(ctx, 0, n);
  } else {
    thread_pool_for(m->pool, n, grain, body, ctx);
  }
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
