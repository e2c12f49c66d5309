/* Attention of many queries in floats against the same in doubles, which takes another way, by all
 * levels of instructions and numbers of threads; and what no query sees. */
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
  dtype mask; /* BOOL, F32 or, for none, I64 */
  double masked;
  dtype cache; /* of k and v: F16 or BF16; else F32 */
} shape;

typedef struct operands {
  float q[MOST], k[MOST], v[MOST], mask[MOST], out[MOST];
  double wide[5][MOST];     /* the same, in that order */
  uint8_t seen[MOST];       /* a BOOL mask */
  uint16_t halves[2][MOST]; /* k and v, where they are narrow */
} operands;

/* Elements of the largest operand. */
static int64_t most_elements(const shape *s) {
  const int64_t widest = larger(s->head_dim, s->v_dim);
  const int64_t n = larger(KV * larger(s->share * s->queries, s->keys) * widest,
                           s->mask == DTYPE_I64 ? 0 : s->queries * s->keys);
  assert_true(n <= MOST);
  return n;
}

static ktensor tensor_of(void *data, dtype t, int64_t heads, int64_t rows, int64_t size) {
  return (ktensor){data, t, 3, {heads, rows, size}, {rows * size, size, 1}};
}

/* Some numbers in [-1, 1). */
static void fill(float *x, double *wide, int64_t n, uint32_t seed) {
  for (int64_t i = 0; i < n; i++) {
    seed = seed * 1664525 + 1013904223;
    x[i] = (float)(int32_t)seed * 0x1p-31F;
    wide[i] = (double)x[i];
  }
}

/* Rounds k and v to the type of the cache. */
static void narrow(const shape *s, operands *x) {
  for (int of = 0; of < 2; of++)
    for (int64_t i = 0; i < most_elements(s); i++) {
      const float v = of ? x->v[i] : x->k[i];
      const bool is_f16 = s->cache == DTYPE_F16;
      const uint16_t h = x->halves[of][i] = is_f16 ? f32_to_f16(v) : f32_to_bf16(v);
      x->wide[1 + of][i] = (double)(is_f16 ? f16_to_f32(h) : bf16_to_f32(h));
    }
}

/* With a row of the mask that hides everything. */
static operands *make_operands(const shape *s) {
  operands *x = calloc(1, sizeof *x);
  assert_non_null(x);
  float *floats[] = {x->q, x->k, x->v, x->mask};
  const int64_t n = most_elements(s);
  for (uint32_t i = 0; i < 4; i++) fill(floats[i], x->wide[i], n, i + 1);
  if (s->cache) narrow(s, x);
  for (int64_t i = 0; i < n; i++) {
    const bool hidden = i / s->keys % s->queries == 1;
    x->seen[i] = !hidden && x->mask[i] > -0.5F;
    if (!hidden) continue;
    x->mask[i] = -INFINITY;
    x->wide[3][i] = -INFINITY;
  }
  return x;
}

static attention_args args_of(const shape *s, operands *x, dtype t) {
  const int64_t heads = KV * s->share;
  const bool wide = t == DTYPE_F64;
  attention_args a = {
      .q = tensor_of(wide ? (void *)x->wide[0] : x->q, t, heads, s->queries, s->head_dim),
      .k = tensor_of(wide ? (void *)x->wide[1] : x->k, t, KV, s->keys, s->head_dim),
      .v = tensor_of(wide ? (void *)x->wide[2] : x->v, t, KV, s->keys, s->v_dim),
      .out = tensor_of(wide ? (void *)x->wide[4] : x->out, t, heads, s->queries, s->v_dim),
      .sizes = {1, KV, s->share, s->queries, s->keys, s->head_dim, s->v_dim},
      .causal = s->causal,
      .empty_nan = s->empty_nan,
      .scale = 0.5,
      .masked = s->masked};
  if (s->mask == DTYPE_BOOL) a.mask = tensor_of(x->seen, DTYPE_BOOL, heads, s->queries, s->keys);
  if (s->mask == DTYPE_F32)
    a.mask = tensor_of(wide ? (void *)x->wide[3] : x->mask, t, heads, s->queries, s->keys);
  if (a.mask.data) a.mask.strides[0] = 0;
  if (s->cache && !wide) {
    a.k = tensor_of(x->halves[0], s->cache, KV, s->keys, s->head_dim);
    a.v = tensor_of(x->halves[1], s->cache, KV, s->keys, s->v_dim);
  }
  return a;
}

static void run(const attention_args *a, int n_threads) {
  test_pool pool = {.grants = 1};
  kernel_fault fault = {0};
  kernel_context ctx = make_context(&pool, &fault);
  ctx.n_threads = n_threads;
  assert_true(kernel_attention.run(&ctx, a));
  assert_int_equal(pool.taken, kernel_attention.scratch(&ctx, a));
  free_pool(&pool);
}

/* Results are as large as values, 1 at most: some roundings of them, and what scores of magnitude 5
 * are off by, which their exponentials pass on. */
static void compare(const shape *s, const operands *x, double allowed) {
  for (int64_t i = 0; i < KV * s->share * s->queries * s->v_dim; i++) {
    const double got = (double)x->out[i], want = x->wide[4][i];
    if (!(fabs(got - want) <= allowed) && !(isnan(got) && isnan(want)))
      fail_msg("%d queries of %d keys, element %d: %a, not %a", (int)s->queries, (int)s->keys,
               (int)i, got, want);
  }
}

/* Against the same of rounded operands in doubles: weights, whose sum with the values is at most 1,
 * are off by half a unit of 8 bits. Where pairs are no faster nothing is rounded. */
static void check_rounded(const shape *s, operands *x, const float *plain) {
  const attention_args wide = args_of(s, x, DTYPE_F64);
  attention_args a = args_of(s, x, DTYPE_F32);
  if (!attention_rounds(&a)) return;
  a.rounds = true;
  memset(x->out, 0, sizeof x->out);
  run(&a, 3);
  if (!cpu_has_avx512_bf16()) {
    assert_memory_equal(x->out, plain, sizeof x->out);
    return;
  }
  for (int of = 0; of < 3; of++)
    for (int64_t i = 0; i < most_elements(s); i++)
      x->wide[of][i] = (double)bf16_to_f32(f32_to_bf16((float)x->wide[of][i]));
  run(&wide, 1);
  compare(s, x, 0x1p-9 + 2e-6);
}

static void check(const shape *s) {
  static float first[MOST];
  operands *x = make_operands(s);
  const attention_args wide = args_of(s, x, DTYPE_F64), a = args_of(s, x, DTYPE_F32);
  run(&wide, 1);
  for (int n_threads = 1; n_threads <= 7; n_threads++) {
    memset(x->out, 0, sizeof x->out);
    run(&a, n_threads);
    compare(s, x, 2e-6);
    if (n_threads == 1) memcpy(first, x->out, sizeof first);
    assert_memory_equal(x->out, first, sizeof first);
  }
  check_rounded(s, x, first);
  free(x);
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

/* A key and a value that are not finite change nothing for the queries that do not see them; beside
 * such a value weights and values are not rounded. */
static void check_hidden(int64_t row, float value, bool rounds) {
  static float before[MOST];
  const shape s = {1, 150, 150, 8, 8, .causal = true, .mask = DTYPE_I64};
  operands *x = make_operands(&s);
  attention_args a = args_of(&s, x, DTYPE_F32);
  a.rounds = rounds;
  run(&a, 1);
  memcpy(before, x->out, sizeof before);
  for (int64_t d = 0; d < s.head_dim; d++) x->v[row * s.v_dim + d] = value;
  x->k[row * s.head_dim] = NAN;
  run(&a, 1);
  for (int64_t i = 0; i < s.queries * s.v_dim; i++)
    if (i / s.v_dim >= row)
      assert_true(isnan(x->out[i]));
    else
      assert_true(fabsf(x->out[i] - before[i]) <= (rounds ? 0x1p-8F : 1e-6F));
  free(x);
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

static void compare_bits(const attention_args *a, const operands *x, const float *before) {
  run(a, 1);
  assert_memory_equal(x->out, before, sizeof x->out);
}

/* Numbers beyond BF16 whose scores are finite: of a key that a float mask alone hides, and of a
 * query where all keys are 0. */
static void check_beyond_bf16(float value, bool rounds) {
  enum { ROW = 77 };
  static float before[MOST];
  const shape s = {1, 150, 150, 8, 8, .mask = DTYPE_F32};
  operands *x = make_operands(&s);
  attention_args a = args_of(&s, x, DTYPE_F32);
  a.rounds = rounds;
  a.scale = 1;
  for (int64_t i = 0; i < s.queries; i++) x->mask[i * s.keys + ROW] = -INFINITY;
  for (int64_t i = 0; i < KV * s.keys; i++) x->k[i * s.head_dim + 3] = 0;
  run(&a, 1);
  memcpy(before, x->out, sizeof before);
  x->q[ROW * s.head_dim + 3] = value;
  compare_bits(&a, x, before);
  x->k[ROW * s.head_dim + 5] = value;
  compare_bits(&a, x, before);
  free(x);
}

static void test_beyond_bf16(void **state) {
  (void)state;
  for (int rounds = 0; rounds < 2; rounds++) {
    check_beyond_bf16(FLT_MAX, rounds);
    check_beyond_bf16(-FLT_MAX, rounds);
    check_beyond_bf16(0x1.fep127F, rounds); /* the largest of BF16 */
    check_beyond_bf16(0x1.ffp127F, rounds); /* the least that is infinite there */
  }
}

/* Of scores that far apart one key alone has a weight: the one with the largest. */
static void test_huge_scores(void **state) {
  (void)state;
  enum { ONE = 37 };
  const shape s = {1, 40, 70, 16, 8, .mask = DTYPE_I64};
  operands *x = make_operands(&s);
  for (int64_t i = 0; i < KV * s.queries * s.head_dim; i++) x->q[i] = 0x1p60F;
  for (int64_t i = 0; i < KV * s.keys * s.head_dim; i++)
    x->k[i] = i / s.head_dim % s.keys == ONE ? 0x1p40F : -0x1p30F * (float)(i % 7 + 1);
  for (cpu_level level = CPU_PORTABLE; level <= CPU_AMX; level = next_level(level))
    for (int rounds = 0; rounds < 2; rounds++) {
      cpu_use_at_most(level);
      attention_args a = args_of(&s, x, DTYPE_F32);
      a.rounds = rounds;
      memset(x->out, 0, sizeof x->out);
      run(&a, 2);
      for (int64_t i = 0; i < KV * s.queries * s.v_dim; i++) {
        const int64_t head = i / s.v_dim / s.queries;
        const float want = x->v[(head * s.keys + ONE) * s.v_dim + i % s.v_dim];
        assert_true(fabsf(x->out[i] - want) <= 0x1p-8F);
      }
    }
  cpu_use_at_most(CPU_AMX);
  free(x);
}

static void check_scratch(int n_threads, int64_t share, int64_t n_keys) {
  float q = 0;
  kernel_context ctx = {.n_threads = n_threads};
  size_t before = 0;
  for (int64_t n = 1; n < 200; n++) {
    const attention_cached_args a = {.q = tensor_of(&q, DTYPE_F32, 3 * share, n, 16),
                                     .sizes = {1, 3, share, n, n_keys, 16, 16},
                                     .room = n};
    const size_t bytes = kernel_attention_cached.scratch(&ctx, &a);
    assert_true(bytes >= before);
    before = bytes;
  }
}

/* A piece with fewer queries than were planned for takes no more memory. */
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
