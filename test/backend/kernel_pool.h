#ifndef TEST_BACKEND_KERNEL_POOL_H
#define TEST_BACKEND_KERNEL_POOL_H
/* A kernel context for tests: tasks run in reverse order, and scratch memory is refused after
 * `grants` requests. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/kernel.h"
#include "base/memory.h"

/* A guard after scratch memory, for builds without sanitizers. Kernels that write there fail. */
#ifdef __SANITIZE_ADDRESS__
enum { MAX_GRANTS = 64, SCRATCH_GUARD = 0 };
#else
enum { MAX_GRANTS = 64, SCRATCH_GUARD = 1024 };
#endif
typedef struct test_pool {
  void *memory[MAX_GRANTS];
  size_t bytes[MAX_GRANTS]; /* the guard begins there */
  int n, grants;
  size_t taken; /* bytes of all requests, each rounded up */
} test_pool;

static void run_backwards(void *pool, int64_t n, int64_t grain, kernel_body body, void *ctx) {
  (void)pool;
  if (n <= 0) return;
  for (int64_t begin = (n - 1) / grain * grain; begin >= 0; begin -= grain)
    body(ctx, begin, begin + grain < n ? begin + grain : n);
}

static void *grant(void *pool, size_t bytes) {
  test_pool *test_pool = pool;
  if (test_pool->n >= test_pool->grants || bytes > SIZE_MAX / 4) return NULL;
  const size_t capacity = kernel_scratch_size(bytes > 0 ? bytes : 1);
  char *memory = memory_alloc_aligned(64, capacity + SCRATCH_GUARD);
  assert_non_null(memory);
  test_pool->taken += kernel_scratch_size(bytes);
  memset(memory, 0xff, bytes); /* NaN, so that a missing write is noticed */
  memset(memory + capacity, 0x5a, SCRATCH_GUARD);
  test_pool->bytes[test_pool->n] = capacity;
  return test_pool->memory[test_pool->n++] = memory;
}

static void free_pool(test_pool *pool) {
  char intact[SCRATCH_GUARD + 1];
  memset(intact, 0x5a, SCRATCH_GUARD);
  for (int i = 0; i < pool->n; i++) {
    const char *guard = (char *)pool->memory[i] + pool->bytes[i];
    if (SCRATCH_GUARD > 0) assert_memory_equal(guard, intact, SCRATCH_GUARD);
    memory_free(pool->memory[i]);
  }
  pool->n = 0;
}

static kernel_context make_context(test_pool *pool, kernel_fault *fault) {
  return (kernel_context){.parallel_for = run_backwards,
                          .pool = pool,
                          .n_threads = 3,
                          .fault = fault,
                          .scratch = grant};
}

/* Runs a kernel and checks that it requests as much memory as it declares. The memory stays in
 * `pool`, which frees it. */
static inline void run_kernel(const kernel_desc *desc, const void *args, int n_threads,
                              test_pool *pool) {
  kernel_fault fault = {0};
  *pool = (test_pool){.grants = MAX_GRANTS};
  kernel_context ctx = make_context(pool, &fault);
  ctx.n_threads = n_threads;
  const size_t bytes = desc->scratch(&ctx, args);
  assert_true(desc->run(&ctx, args));
  assert_int_equal(pool->taken, kernel_scratch_size(bytes));
}

/* Packs the weight first, runs the kernel on it and frees the packed weight. packed: the pointer in
 * args that is set to the packed weight. */
static inline void run_packed_kernel(const kernel_desc *pack, const kernel_desc *keys,
                                     const void *args, const void **packed, int n_threads) {
  test_pool weights, pool;
  run_kernel(pack, args, n_threads, &weights);
  *packed = weights.memory[0];
  run_kernel(keys, args, n_threads, &pool);
  free_pool(&pool);
  free_pool(&weights);
}

#endif
