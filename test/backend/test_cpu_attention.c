/* Compares attention of many queries in floats with a plain computation in doubles, for all levels
 * of instructions and numbers of threads. Also tests keys that no query sees. */
#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "backend/cpu/kernels/attention/attention.h"
#include "backend/cpu/kernels/support/features.h"
#include "backend/cpu_levels.h"
#include "backend/kernel_pool.h"

enum { KV = 2, MOST = 1 << 17 }; /* MOST: elements of an operand */

typedef struct shape {
  int64_t share, queries, keys, head_dim, v_dim;
  bool causal, empty_nan;
  dtype mask; /* BOOL or F32; I64: no mask */
  double masked;
  dtype cache; /* dtype of k and v: F16, BF16 or F32 */
} shape;

typedef struct operands {
  float q[MOST], k[MOST], v[MOST], mask[MOST], out[MOST];
  double wide[5][MOST];     /* the same, in that order */
  uint8_t seen[MOST];       /* a BOOL mask */
  uint16_t halves[2][MOST]; /* k and v in 16 bits */
} operands;

/* Elements of the largest operand. */
static int64_t max_elements(const shape *shape) {
  const int64_t widest = larger(shape->head_dim, shape->v_dim);
  const int64_t n = larger(KV * larger(shape->share * shape->queries, shape->keys) * widest,
                           shape->mask == DTYPE_I64 ? 0 : shape->queries * shape->keys);
  assert_true(n <= MOST);
  return n;
}

static ktensor tensor_of(void *data, dtype t, int64_t heads, int64_t rows, int64_t size) {
  return (ktensor){data, t, 3, {heads, rows, size}, {rows * size, size, 1}};
}

/* Some numbers in [-1, 1). */
static void fill(float *values, double *wide, int64_t n, uint32_t seed) {
  for (int64_t i = 0; i < n; i++) {
    seed = seed * 1664525 + 1013904223;
    values[i] = (float)(int32_t)seed * 0x1p-31F;
    wide[i] = (double)values[i];
  }
}

/* Rounds k and v to the cache's type. */
static void narrow(const shape *shape, operands *operands) {
  for (int of = 0; of < 2; of++)
    for (int64_t i = 0; i < max_elements(shape); i++) {
      const float v = of ? operands->v[i] : operands->k[i];
      const bool is_f16 = shape->cache == DTYPE_F16;
      const uint16_t h = operands->halves[of][i] = is_f16 ? f32_to_f16(v) : f32_to_bf16(v);
      operands->wide[1 + of][i] = (double)(is_f16 ? f16_to_f32(h) : bf16_to_f32(h));
    }
}

/* Makes operands; one row of the mask hides everything. */
static operands *make_operands(const shape *shape) {
  operands *operands = calloc(1, sizeof *operands);
  assert_non_null(operands);
  float *floats[] = {operands->q, operands->k, operands->v, operands->mask};
  const int64_t n = max_elements(shape);
  for (uint32_t i = 0; i < 4; i++) fill(floats[i], operands->wide[i], n, i + 1);
  if (shape->cache) narrow(shape, operands);
  for (int64_t i = 0; i < n; i++) {
    const bool hidden = i / shape->keys % shape->queries == 1;
    operands->seen[i] = !hidden && operands->mask[i] > -0.5F;
    if (!hidden) continue;
    operands->mask[i] = -INFINITY;
    operands->wide[3][i] = -INFINITY;
  }
  return operands;
}

static attention_args args_of(const shape *shape, operands *operands, dtype t) {
  const int64_t heads = KV * shape->share;
  const bool wide = t == DTYPE_F64;
  attention_args args = {
      .q = tensor_of(wide ? (void *)operands->wide[0] : operands->q, t, heads, shape->queries,
                     shape->head_dim),
      .k = tensor_of(wide ? (void *)operands->wide[1] : operands->k, t, KV, shape->keys,
                     shape->head_dim),
      .v = tensor_of(wide ? (void *)operands->wide[2] : operands->v, t, KV, shape->keys,
                     shape->v_dim),
      .out = tensor_of(wide ? (void *)operands->wide[4] : operands->out, t, heads, shape->queries,
                       shape->v_dim),
      .sizes = {1, KV, shape->share, shape->queries, shape->keys, shape->head_dim, shape->v_dim},
      .causal = shape->causal,
      .empty_nan = shape->empty_nan,
      .scale = 0.5,
      .masked = shape->masked};
  if (shape->mask == DTYPE_BOOL)
    args.mask = tensor_of(operands->seen, DTYPE_BOOL, heads, shape->queries, shape->keys);
  if (shape->mask == DTYPE_F32)
    args.mask = tensor_of(wide ? (void *)operands->wide[3] : operands->mask, t, heads,
                          shape->queries, shape->keys);
  if (args.mask.data) args.mask.strides[0] = 0;
  if (shape->cache && !wide) {
    args.k = tensor_of(operands->halves[0], shape->cache, KV, shape->keys, shape->head_dim);
    args.v = tensor_of(operands->halves[1], shape->cache, KV, shape->keys, shape->v_dim);
  }
  return args;
}

static void run(const attention_args *args, int n_threads) {
  test_pool pool = {.grants = 1};
  kernel_fault fault = {0};
  kernel_context ctx = make_context(&pool, &fault);
  ctx.n_threads = n_threads;
  assert_true(kernel_attention.run(&ctx, args));
  assert_int_equal(pool.taken, kernel_attention.scratch(&ctx, args));
  free_pool(&pool);
}

/* Compares results, which like the values are at most 1. Their error is that of some roundings, and
 * of scores of magnitude 5, which exponentials inherit. */
static void compare(const shape *shape, const operands *operands, double allowed) {
  for (int64_t i = 0; i < KV * shape->share * shape->queries * shape->v_dim; i++) {
    const double got = (double)operands->out[i], want = operands->wide[4][i];
    if (!(fabs(got - want) <= allowed) && !(isnan(got) && isnan(want)))
      fail_msg("%d queries of %d keys, element %d: %a, not %a", (int)shape->queries,
               (int)shape->keys, (int)i, got, want);
  }
}

/* Compares with attention of rounded operands in doubles. Weights, whose products with the values
 * sum to at most 1, are off by half a unit of 8 bits. Nothing is rounded if pairs are not
 * faster. */
static void check_rounded(const shape *shape, operands *operands, const float *plain) {
  const attention_args wide = args_of(shape, operands, DTYPE_F64);
  attention_args args = args_of(shape, operands, DTYPE_F32);
  if (!attention_rounds(&args)) return;
  args.rounds = true;
  memset(operands->out, 0, sizeof operands->out);
  run(&args, 3);
  if (!cpu_has_avx512_bf16()) {
    assert_memory_equal(operands->out, plain, sizeof operands->out);
    return;
  }
  for (int of = 0; of < 3; of++)
    for (int64_t i = 0; i < max_elements(shape); i++)
      operands->wide[of][i] = (double)bf16_to_f32(f32_to_bf16((float)operands->wide[of][i]));
  run(&wide, 1);
  compare(shape, operands, 0x1p-9 + 2e-6);
}

static void check(const shape *shape) {
  static float first[MOST];
  operands *operands = make_operands(shape);
  const attention_args wide = args_of(shape, operands, DTYPE_F64),
                       args = args_of(shape, operands, DTYPE_F32);
  run(&wide, 1);
  for (int n_threads = 1; n_threads <= 7; n_threads++) {
    memset(operands->out, 0, sizeof operands->out);
    run(&args, n_threads);
    compare(shape, operands, 2e-6);
    if (n_threads == 1) memcpy(first, operands->out, sizeof first);
    assert_memory_equal(operands->out, first, sizeof first);
  }
  check_rounded(shape, operands, first);
  free(operands);
}

static const shape shapes[] = {{1, 16, 128, 64, 64, .mask = DTYPE_I64},
                               {1, 17, 129, 64, 65, .mask = DTYPE_I64},
                               {5, 2, 7, 3, 1, .mask = DTYPE_I64},
                               {3, 33, 1, 70, 9, .mask = DTYPE_I64},
                               {1, 300, 300, 8, 40, .causal = true, .mask = DTYPE_I64},
                               {2, 140, 90, 17, 8, .causal = true, .mask = DTYPE_I64},
                               {2, 20, 300, 130, 36, .mask = DTYPE_BOOL, .masked = -INFINITY},
                               {2, 20, 200, 1, 300, .mask = DTYPE_BOOL, .masked = -0.5},
                               {4, 9, 257, 16, 16, .mask = DTYPE_F32},
                               {4, 9, 257, 16, 16, .empty_nan = true, .mask = DTYPE_F32},
                               {1, 200, 200, 8, 8, .causal = true, .mask = DTYPE_F32},
                               {1, 5, 70, 33, 9, .mask = DTYPE_I64},
                               {1, 20, 40, 0, 9, .mask = DTYPE_I64},
                               {2, 4, 90, 64, 100, .causal = true, .mask = DTYPE_F32},
                               {9, 1, 131, 21, 67, .mask = DTYPE_I64},
                               {3, 2, 75, 16, 130, .mask = DTYPE_I64, .cache = DTYPE_F16},
                               {9, 1, 131, 21, 67, .mask = DTYPE_I64, .cache = DTYPE_F16},
                               {9, 1, 131, 21, 67, .mask = DTYPE_I64, .cache = DTYPE_BF16},
                               {2, 20, 140, 37, 18, .mask = DTYPE_I64, .cache = DTYPE_BF16}};

static void test_shapes(void **state) {
  (void)state;
  for (cpu_level level = CPU_PORTABLE; level <= CPU_AMX; level = next_level(level)) {
    cpu_use_at_most(level);
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) check(&shapes[i]);
  }
}

/* A key and a value that are not finite do not affect queries that do not see them. In a block with
 * such a value, weights and values are not rounded. */
static void check_hidden(int64_t row, float value, bool rounds) {
  static float before[MOST];
  const shape shape = {1, 150, 150, 8, 8, .causal = true, .mask = DTYPE_I64};
  operands *operands = make_operands(&shape);
  attention_args args = args_of(&shape, operands, DTYPE_F32);
  args.rounds = rounds;
  run(&args, 1);
  memcpy(before, operands->out, sizeof before);
  for (int64_t d = 0; d < shape.head_dim; d++) operands->v[row * shape.v_dim + d] = value;
  operands->k[row * shape.head_dim] = NAN;
  run(&args, 1);
  for (int64_t i = 0; i < shape.queries * shape.v_dim; i++)
    if (i / shape.v_dim >= row)
      assert_true(isnan(operands->out[i]));
    else
      assert_true(fabsf(operands->out[i] - before[i]) <= (rounds ? 0x1p-8F : 1e-6F));
  free(operands);
}

static void test_hidden(void **state) {
  (void)state;
  for (int64_t row = 5; row < 150; row += 24) {
    check_hidden(row, NAN, row % 48 == 5);
    check_hidden(row, INFINITY, row % 48 == 5);
  }
  for (int64_t row = 29; row < 150; row += 11) {
    check_hidden(row, NAN, true);
    check_hidden(row, INFINITY, true);
    check_hidden(row, FLT_MAX, true); /* infinite in BF16 */
  }
}

static void compare_bits(const attention_args *args, const operands *operands,
                         const float *before) {
  run(args, 1);
  assert_memory_equal(operands->out, before, sizeof operands->out);
}

/* Tests numbers beyond the range of BF16 whose scores are finite: in a key that only a float mask
 * hides, and in a query's dimension in which all keys are 0. */
static void check_beyond_bf16(float value, bool rounds) {
  enum { ROW = 77 };
  static float before[MOST];
  const shape shape = {1, 150, 150, 8, 8, .mask = DTYPE_F32};
  operands *operands = make_operands(&shape);
  attention_args args = args_of(&shape, operands, DTYPE_F32);
  args.rounds = rounds;
  args.scale = 1;
  for (int64_t i = 0; i < shape.queries; i++) operands->mask[i * shape.keys + ROW] = -INFINITY;
  for (int64_t i = 0; i < KV * shape.keys; i++) operands->k[i * shape.head_dim + 3] = 0;
  run(&args, 1);
  memcpy(before, operands->out, sizeof before);
  operands->q[ROW * shape.head_dim + 3] = value;
  compare_bits(&args, operands, before);
  operands->k[ROW * shape.head_dim + 5] = value;
  compare_bits(&args, operands, before);
  free(operands);
}

static void test_beyond_bf16(void **state) {
  (void)state;
  for (int rounds = 0; rounds < 2; rounds++) {
    check_beyond_bf16(FLT_MAX, rounds);
    check_beyond_bf16(-FLT_MAX, rounds);
    check_beyond_bf16(0x1.fep127F, rounds); /* the largest of BF16 */
    check_beyond_bf16(0x1.ffp127F, rounds); /* the smallest number that is infinite in BF16 */
  }
}

/* If one score is much larger than the others, its key has all of the weight. */
static void test_huge_scores(void **state) {
  (void)state;
  enum { ONE = 37 };
  const shape shape = {1, 40, 70, 16, 8, .mask = DTYPE_I64};
  operands *operands = make_operands(&shape);
  for (int64_t i = 0; i < KV * shape.queries * shape.head_dim; i++) operands->q[i] = 0x1p60F;
  for (int64_t i = 0; i < KV * shape.keys * shape.head_dim; i++)
    operands->k[i] =
        i / shape.head_dim % shape.keys == ONE ? 0x1p40F : -0x1p30F * (float)(i % 7 + 1);
  for (cpu_level level = CPU_PORTABLE; level <= CPU_AMX; level = next_level(level))
    for (int rounds = 0; rounds < 2; rounds++) {
      cpu_use_at_most(level);
      attention_args args = args_of(&shape, operands, DTYPE_F32);
      args.rounds = rounds;
      memset(operands->out, 0, sizeof operands->out);
      run(&args, 2);
      for (int64_t i = 0; i < KV * shape.queries * shape.v_dim; i++) {
        const int64_t head = i / shape.v_dim / shape.queries;
        const float want = operands->v[(head * shape.keys + ONE) * shape.v_dim + i % shape.v_dim];
        assert_true(fabsf(operands->out[i] - want) <= 0x1p-8F);
      }
    }
  cpu_use_at_most(CPU_AMX);
  free(operands);
}

static void check_scratch(int n_threads, int64_t share, int64_t n_keys) {
  float q = 0;
  kernel_context ctx = {.n_threads = n_threads};
  size_t before = 0;
  for (int64_t n = 1; n < 200; n++) {
    const attention_cached_args args = {.q = tensor_of(&q, DTYPE_F32, 3 * share, n, 16),
                                        .sizes = {1, 3, share, n, n_keys, 16, 16},
                                        .max_new_rows = n};
    const size_t bytes = kernel_attention_cached.scratch(&ctx, &args);
    assert_true(bytes >= before);
    before = bytes;
  }
}

/* A part with fewer queries than planned needs no more memory. */
static void test_scratch(void **state) {
  (void)state;
  static const int64_t shares[] = {1, 2, 9, 20, 71};
  for (size_t i = 0; i < sizeof shares / sizeof *shares; i++)
    for (int n_threads = 1; n_threads <= 9; n_threads++)
      for (int64_t n_keys = 1; n_keys < 100000; n_keys = n_keys * 3 + 1)
        check_scratch(n_threads, shares[i], n_keys);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_shapes), cmocka_unit_test(test_hidden),
                                     cmocka_unit_test(test_beyond_bf16),
                                     cmocka_unit_test(test_huge_scores),
                                     cmocka_unit_test(test_scratch)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
