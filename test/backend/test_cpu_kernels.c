/* Tests difficult cases of the CPU kernels: step functions at their limits, rounding, and the
 * blocked matrix product, which is compared with a plain one for odd sizes, layouts, threads and
 * failing scratch memory. */
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
#include "backend/cpu/kernels/elementwise/elementwise.h"
#include "backend/cpu/kernels/elementwise/steps.h"
#include "backend/cpu/kernels/gemm/matmul.h"
#include "backend/cpu/kernels/reduce.h"
#include "backend/cpu/kernels/support/rows.h"
#include "backend/cpu/kernels/support/vector.h"
#include "backend/kernel_pool.h"

/* ---- steps */

static void test_integer_steps(void **state) {
  (void)state;
  assert_int_equal(step_floor_divide_i64(-7, 2), -4);
  assert_int_equal(step_floor_divide_i64(7, -2), -4);
  assert_int_equal(step_floor_divide_i64(-8, 2), -4);
  assert_int_equal(step_floor_divide_i64(5, 0), 0);
  assert_true(step_floor_divide_i64(INT64_MIN, -1) == INT64_MIN);
  assert_int_equal(step_trunc_divide_i64(-7, 2), -3);
  assert_true(step_trunc_divide_i64(INT64_MIN, -1) == INT64_MIN);
  assert_int_equal(step_remainder_i64(-7, 3), 2);
  assert_int_equal(step_remainder_i64(7, -3), -2);
  assert_int_equal(step_remainder_i64(INT64_MIN, -1), 0);
  assert_int_equal(step_fmod_i64(-7, 3), -1);
  assert_int_equal(step_fmod_i64(7, 0), 0);
  assert_true(step_neg_i64(INT64_MIN) == INT64_MIN);
  assert_true(step_abs_i64(INT64_MIN) == INT64_MIN);
}

static void test_integer_powers_and_shifts(void **state) {
  (void)state;
  assert_int_equal(step_pow_i64(3, 5), 243);
  assert_int_equal(step_pow_i64(0, 0), 1);
  assert_int_equal(step_pow_i64(-2, 63) == INT64_MIN, 1);
  assert_int_equal(step_pow_i64(1, -9), 1);
  assert_int_equal(step_pow_i64(-1, -3), -1);
  assert_int_equal(step_pow_i64(-1, INT64_MIN), 1);
  assert_int_equal(step_pow_i64(0, -1), 0);
  assert_int_equal(step_pow_i64(7, -1), 0);
  assert_int_equal(step_shift_left(-3, 2), -12);
  assert_int_equal(step_shift_left(5, 64), 0);
  assert_int_equal(step_shift_left(5, -1), 0);
  assert_int_equal(step_shift_right(-5, 70), -1);
  assert_int_equal(step_shift_right(-5, -1), -1);
  assert_int_equal(step_shift_right(5, 1), 2);
}

static void test_float_steps(void **state) {
  (void)state;
  assert_true(step_remainder_f32(-7, 3) == 2);
  assert_true(step_remainder_f32(7, -3) == -2);
  assert_true(isnan(step_remainder_f32(1, 0)));
  assert_true(step_fmod_f32(-7, 3) == -1);
  assert_true(step_floor_divide_f32(-7, 2) == -4);
  assert_true(step_floor_divide_f64(1, 0.1) == 9); /* not 10: 0.1 is a little more than 1/10 */
  assert_true(step_floor_divide_f32(1, 0) == INFINITY);
  assert_true(isnan(step_floor_divide_f32(0, 0)));
  assert_true(signbit(step_floor_divide_f32(-0.0F, 3)));
  assert_true(isnan(step_max_f32(NAN, 1)) && isnan(step_max_f32(1, NAN)));
  assert_true(isnan(step_min_f64(NAN, 1)) && isnan(step_min_f64(1, NAN)));
  assert_true(step_sign_f32(NAN) == 0 && step_sign_f32(-INFINITY) == -1);
}

/* Returns the distance of y from `exact` in units in the last place. */
static double ulps_off(float y, double exact) {
  float next = nextafterf(fabsf((float)exact), INFINITY);
  double unit = (double)next - fabs((double)(float)exact);
  return fabs((double)y - exact) / unit;
}

/* Infinite and huge arguments. */
static void test_sigmoid_of_large(void **state) {
  (void)state;
  assert_true(step_sigmoid_f32(INFINITY) == 1 && step_sigmoid_f32(1e30F) == 1);
  assert_true(step_sigmoid_f32(-INFINITY) == 0 && step_sigmoid_f32(-1e30F) == 0);
  assert_true(step_silu_f32(INFINITY) == INFINITY && step_silu_f32(1e30F) == 1e30F);
  assert_true(isnan(step_silu_f32(-INFINITY)) && step_silu_f32(-1e30F) == 0);
  assert_true(step_gelu_f32(INFINITY) == INFINITY && step_gelu_f32(1e30F) == 1e30F);
  assert_true(isnan(step_gelu_f32(-INFINITY)) && step_gelu_f32(-1e30F) == 0);
}

static void check_gelu(float x) {
  const double exact = 0.5 * (double)x * erfc(-(double)x / 1.41421356237309504880);
  const float y = step_gelu_f32(x);
  if (fabs(exact) < 0x1p-125)
    assert_true(fabs((double)y - exact) < 0x1p-125 && signbit(y) == signbit(x));
  else
    assert_true(ulps_off(y, exact) <= 6);
}

/* Checks the error bounds that steps.h promises for the vectorized functions, over all sizes. */
static void test_vector_functions_round_well(void **state) {
  (void)state;
  for (uint64_t bits = 0; bits <= UINT32_MAX; bits += 9973) {
    uint32_t u = (uint32_t)bits;
    float x;
    memcpy(&x, &u, sizeof x);
    double e = exp((double)x);
    if (isnan(x)) {
      assert_true(isnan(step_exp_f32(x)) && isnan(step_tanh_f32(x)));
      assert_true(isnan(step_sigmoid_f32(x)) && isnan(step_silu_f32(x)));
      assert_true(isnan(step_gelu_f32(x)));
      continue;
    }
    if (e > (double)FLT_MAX || e < (double)FLT_MIN)
      assert_true(step_exp_f32(x) == (float)e || ulps_off(step_exp_f32(x), e) <= 0.51);
    else
      assert_true(ulps_off(step_exp_f32(x), e) <= 0.51);
    assert_true(ulps_off(step_tanh_f32(x), tanh((double)x)) <= 2);
    check_gelu(x);
    if (fabsf(x) > 87) continue;
    assert_true(ulps_off(step_sigmoid_f32(x), 1 / (1 + exp(-(double)x))) <= 2.5);
    assert_true(fabsf(x) < 0x1p-125F ||
                ulps_off(step_silu_f32(x), (double)x / (1 + exp(-(double)x))) <= 2.5);
  }
}

/* ---- rows */

/* Tests lengths around that of a vector, with the largest element or a NaN at each position. */
static void test_largest(void **state) {
  (void)state;
  float x[40] = {0};
  assert_true(largest_f32(0, x) == -INFINITY);
  for (int n = 1; n <= 40; n++)
    for (int at = 0; at < n; at++) {
      for (int i = 0; i < n; i++) x[i] = -2.0f - (float)(i % 7);
      x[at] = -1;
      assert_true(largest_f32(n, x) == -1);
      x[at] = INFINITY;
      assert_true(largest_f32(n, x) == INFINITY);
      x[(at + 5) % n] = NAN;
      assert_true(isnan(largest_f32(n, x)));
    }
}

static void test_float_to_integer_is_defined(void **state) {
  (void)state;
  assert_int_equal(float_to_i64(-2.9), -2);
  assert_true(float_to_i64(NAN) == INT64_MIN);
  assert_true(float_to_i64(1e300) == INT64_MIN);
  assert_true(float_to_i64(9223372036854775808.0) == INT64_MIN);
  assert_true(float_to_i64(-9223372036854775808.0) == INT64_MIN);
}

static uint16_t store_half(double x) {
  uint16_t h;
  store_row(COMPUTE_F64, DTYPE_F16, &h, 1, 1, &x);
  return h;
}

static void test_double_to_half_rounds_once(void **state) {
  (void)state;
  double tie = 1 + 0x1p-11;
  assert_int_equal(store_half(tie), 0x3c00); /* to even */
  assert_int_equal(store_half(tie + 0x1p-40),
                   0x3c01); /* above the midpoint, to which float would round it first */
  assert_int_equal(store_half(-tie - 0x1p-40), 0xbc01);
  assert_int_equal(store_half(tie - 0x1p-40), 0x3c00);
  assert_int_equal(store_half(65520 - 0x1p-30), 0x7bff);
  assert_int_equal(store_half(65520), 0x7c00);
  assert_int_equal(store_half(1e300), 0x7c00);
  assert_int_equal(store_half(1e-300), 0x0000);
  assert_int_equal(store_half(0x1p-25 + 0x1p-70), 0x0001);
  assert_int_equal(store_half(NAN) & 0x7c00, 0x7c00);
}

/* Every F16 survives every conversion, in contiguous rows (vector code) and in strided ones. */
static void test_halves_survive(void **state) {
  (void)state;
  uint16_t in[2 * ROW_BLOCK], out[2 * ROW_BLOCK];
  row_block block;
  for (int at = 0; at < 65536; at += ROW_BLOCK)
    for (int stride = 1; stride <= 2; stride++)
      for (int type = 0; type < 4; type++) {
        dtype t = type % 2 ? DTYPE_BF16 : DTYPE_F16;
        compute_type c = type / 2 ? COMPUTE_F64 : COMPUTE_F32;
        for (int i = 0; i < ROW_BLOCK; i++) in[i * stride] = (uint16_t)(at + i);
        load_row(c, t, in, stride, ROW_BLOCK, &block);
        store_row(c, t, out, stride, ROW_BLOCK, &block);
        for (int i = 0; i < ROW_BLOCK; i++) {
          double x = c == COMPUTE_F64 ? block.f64[i] : (double)block.f32[i];
          if (isnan(x)) continue;
          assert_int_equal(out[i * stride], in[i * stride]);
        }
      }
}

static void test_integers_wrap(void **state) {
  (void)state;
  int64_t x[] = {300, -1, 128, 0, INT64_MIN};
  int8_t i8[5];
  uint8_t u8[5], b[5];
  store_row(COMPUTE_I64, DTYPE_I8, i8, 1, 5, x);
  store_row(COMPUTE_I64, DTYPE_U8, u8, 1, 5, x);
  store_row(COMPUTE_I64, DTYPE_BOOL, b, 1, 5, x);
  assert_int_equal(i8[0], 44);
  assert_int_equal(i8[2], -128);
  assert_int_equal(u8[1], 255);
  assert_memory_equal(b, ((uint8_t[]){1, 1, 1, 0, 1}), 5);
}

/* ---- matmul */

typedef struct layout {
  bool a_transposed, b_transposed, biased;
} layout;

static ktensor make_matrix(dtype t, int64_t rows, int64_t columns, bool transposed, int seed) {
  ktensor ktensor = {.type = t, .rank = 2, .dims = {rows, columns}, .strides = {columns, 1}};
  if (transposed) {
    ktensor.strides[0] = 1;
    ktensor.strides[1] = rows;
  }
  int64_t n = rows * columns;
  ktensor.data = malloc((size_t)n * dtype_size(t) + 1);
  assert_non_null(ktensor.data);
  for (int64_t i = 0; i < n; i++) {
    int64_t v = (i * 7919 + seed * 104729) % 17 - 8; /* small integers: every sum is exact */
    store_row(COMPUTE_I64, t, element_at(ktensor.data, t, i), 1, 1, &v);
  }
  return ktensor;
}

static double element(const ktensor *ktensor, int64_t i, int64_t j) {
  double v;
  load_row(
      COMPUTE_F64, ktensor->type,
      element_at(ktensor->data, ktensor->type, i * ktensor->strides[0] + j * ktensor->strides[1]),
      1, 1, &v);
  return v;
}

static matmul_args product_args(const ktensor *left, const ktensor *right, const ktensor *out) {
  return (matmul_args){.a = left->data,
                       .b = right->data,
                       .out = out->data,
                       .type = out->type,
                       .a_type = left->type,
                       .out_type = out->type,
                       .b_type = right->type,
                       .m = out->dims[0],
                       .n = out->dims[1],
                       .k = left->dims[1],
                       .batches = 1,
                       .a_m = left->strides[0],
                       .a_k = left->strides[1],
                       .b_k = right->strides[0],
                       .b_n = right->strides[1],
                       .alpha = 1,
                       .epilogue = conv_epilogue_none};
}

/* Runs the kernel in exactly as much memory as it declares. */
static void run_matmul(const matmul_args *args) {
  test_pool pool = {.grants = MAX_GRANTS};
  kernel_fault fault = {0};
  kernel_context ctx = make_context(&pool, &fault);
  assert_true(kernel_matmul.run(&ctx, args));
  assert_true(pool.taken <= kernel_matmul.scratch(&ctx, args));
  free_pool(&pool);
}

static void check_product(dtype t, int64_t m, int64_t n, int64_t k, layout l) {
  ktensor a = make_matrix(t, m, k, l.a_transposed, 1), b = make_matrix(t, k, n, l.b_transposed, 2);
  ktensor out = make_matrix(t, m, n, false, 3), bias = make_matrix(t, m, n, false, 4);
  bias.strides[0] = 0; /* a row for all */
  matmul_args args = product_args(&a, &b, &out);
  if (l.biased) {
    args.alpha = 2;
    args.beta = 3;
    args.bias = bias.data;
    args.bias_n = 1;
  }
  run_matmul(&args);
  for (int64_t i = 0; i < m; i++)
    for (int64_t j = 0; j < n; j++) {
      double sum = 0;
      for (int64_t x = 0; x < k; x++) sum += element(&a, i, x) * element(&b, x, j);
      sum = args.alpha * sum + (l.biased ? 3 * element(&bias, i, j) : 0);
      if (element(&out, i, j) != sum)
        fail_msg("%s %dx%dx%d: (%d, %d) is %g, not %g", dtype_name(t), (int)m, (int)k, (int)n,
                 (int)i, (int)j, element(&out, i, j), sum);
    }
  free(a.data);
  free(b.data);
  free(out.data);
  free(bias.data);
}

static void test_products(void **state) {
  (void)state;
  static const int64_t sizes[][3] = {
      {1, 1, 1}, {1, 300, 65}, {6, 257, 33}, {7, 9, 300}, {12, 32, 64}, {13, 33, 65}, {70, 5, 129},
      {3, 4, 0}, {0, 4, 3},    {4, 0, 3},    {2, 1, 500}, {505, 17, 8}, {33, 520, 70}};
  static const dtype types[] = {DTYPE_F32, DTYPE_F64, DTYPE_I32, DTYPE_I64};
  for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
    for (size_t t = 0; t < sizeof types / sizeof *types; t++)
      for (int l = 0; l < 8; l++)
        check_product(types[t], sizes[s][0], sizes[s][1], sizes[s][2],
                      (layout){l & 1, l & 2, l & 4});
}

/* Batches with dimensions over which an operand does not change. */
static void test_batches(void **state) {
  (void)state;
  float a[2 * 3 * 4 * 5], b[3 * 5 * 6], out[2 * 3 * 4 * 6];
  for (int i = 0; i < 120; i++) a[i] = (float)(i % 7 - 3);
  for (int i = 0; i < 90; i++) b[i] = (float)(i % 5 - 2);
  for (int shared = 0; shared < 2; shared++) {
    run_matmul(&(matmul_args){.a = a,
                              .b = b,
                              .out = out,
                              .type = DTYPE_F32,
                              .b_type = DTYPE_F32,
                              .m = 4,
                              .n = 6,
                              .k = 5,
                              .batches = 6,
                              .a_m = 5,
                              .a_k = 1,
                              .b_k = 6,
                              .b_n = 1,
                              .a_batch = {2, {2, 3}, {60, 20}},
                              .b_batch = {2, {2, 3}, {0, shared ? 0 : 30}},
                              .bias_batch = {2, {2, 3}, {0}},
                              .alpha = 1,
                              .epilogue = conv_epilogue_none});
    for (int i = 0; i < 144; i++) {
      int batch = i / 24, row = i / 6 % 4, column = i % 6;
      float sum = 0;
      for (int k = 0; k < 5; k++)
        sum += a[batch * 20 + row * 5 + k] * b[(shared ? 0 : batch % 3 * 30) + k * 6 + column];
      assert_true(out[i] == sum);
    }
  }
}

static void test_scratch_runs_out(void **state) {
  (void)state;
  ktensor a = make_matrix(DTYPE_F32, 40, 50, false, 1),
          b = make_matrix(DTYPE_F32, 50, 60, false, 2);
  ktensor out = make_matrix(DTYPE_F32, 40, 60, false, 3);
  matmul_args args = product_args(&a, &b, &out);
  bool done = false;
  for (int grants = 0; !done; grants++) {
    test_pool pool = {.grants = grants};
    kernel_fault fault = {0};
    kernel_context ctx = make_context(&pool, &fault);
    done = kernel_matmul.run(&ctx, &args);
    assert_true(done || grants < 8);
    assert_true(!done || grants > 0);
    free_pool(&pool);
  }
  free(a.data);
  free(b.data);
  free(out.data);
}

/* ---- reductions: a long one is split, and the parts are merged */

/* Runs over all of ktensor, in as much memory as the kernel declares. */
static float reduce_all(kreduce_kind kind, const ktensor *ktensor, const kernel_context *ctx) {
  float out = -1;
  const reduce_args args = {.kind = kind,
                            .x = *ktensor,
                            .out = {.data = &out, .type = DTYPE_F32},
                            .over = {1, {ktensor->dims[0]}, {1}},
                            .divisor = (double)ktensor->dims[0]};
  test_pool *pool = ctx->pool;
  pool->taken = 0;
  assert_true(kernel_reduce.run(ctx, &args));
  assert_true(pool->taken > 0);
  assert_int_equal(pool->taken, kernel_reduce.scratch(ctx, &args));
  return out;
}

static void test_split_variance(void **state) {
  (void)state;
  enum { N = 360000 }; /* 11 parts */
  float *values = malloc(N * sizeof *values);
  assert_non_null(values);
  for (int i = 0; i < N; i++) values[i] = 1000 + (float)(i % 10);
  ktensor in = {values, DTYPE_F32, 1, {N}, {1}};
  test_pool pool = {.grants = MAX_GRANTS};
  kernel_fault fault = {0};
  kernel_context ctx = make_context(&pool, &fault);
  assert_true(fabs((double)reduce_all(KREDUCE_VAR, &in, &ctx) - 8.25) < 1e-5);
  assert_true(reduce_all(KREDUCE_MEAN, &in, &ctx) == 1004.5F);
  values[N / 2] = NAN;
  assert_true(isnan(reduce_all(KREDUCE_MAX, &in, &ctx)));
  assert_true(reduce_all(KREDUCE_ALL, &in, &ctx) == 1);
  free_pool(&pool);
  free(values);
}

/* ---- attention over a ring: pieces of any size at any position equal rows one by one */

enum { TOKENS = 24, RING = 9, WINDOW = 4, HEADS = 4, KV = 2, DIM = 3 };

typedef struct ring {
  float q[HEADS][TOKENS][DIM], k[KV][TOKENS][DIM], v[KV][TOKENS][DIM], out[HEADS][TOKENS][DIM];
  float keys[KV][RING][DIM], values[KV][RING][DIM];
} ring;

static void fill_ring(ring *ring) {
  float *queries = &ring->q[0][0][0], *keys = &ring->k[0][0][0], *values = &ring->v[0][0][0];
  for (int i = 0; i < HEADS * TOKENS * DIM; i++) queries[i] = (float)(i * 7 % 23 - 11) / 8;
  for (int i = 0; i < KV * TOKENS * DIM; i++) keys[i] = (float)(i * 5 % 19 - 9) / 8;
  for (int i = 0; i < KV * TOKENS * DIM; i++) values[i] = (float)(i * 11 % 29 - 14) / 8;
}

/* Returns rows [at, at + n) of (heads, rows, DIM). */
static ktensor some_rows(void *data, int64_t heads, int64_t rows, int64_t at, int64_t n) {
  return (ktensor){(float *)data + at * DIM,
                   DTYPE_F32,
                   4,
                   {1, heads, n, DIM},
                   {heads * rows * DIM, rows * DIM, DIM, 1}};
}

/* Computes the tokens [at, at + n), in the memory that the kernel declares for any position. */
static void attend_ring(ring *ring, int n_threads, int64_t at, int64_t n) {
  const attention_cached_args args = {.q = some_rows(ring->q, HEADS, TOKENS, at, n),
                                      .new_k = some_rows(ring->k, KV, TOKENS, at, n),
                                      .new_v = some_rows(ring->v, KV, TOKENS, at, n),
                                      .position = {.data = &at, .type = DTYPE_I64},
                                      .k = some_rows(ring->keys, KV, RING, 0, RING),
                                      .v = some_rows(ring->values, KV, RING, 0, RING),
                                      .out = some_rows(ring->out, HEADS, TOKENS, at, n),
                                      .sizes = {1, KV, HEADS / KV, n, RING, DIM, DIM},
                                      .window = WINDOW,
                                      .max_new_rows = RING - WINDOW + 1,
                                      .scale = 0.5};
  test_pool pool = {.grants = 1};
  kernel_fault fault = {0};
  kernel_context ctx = make_context(&pool, &fault);
  ctx.n_threads = n_threads;
  assert_true(kernel_attention_cached.run(&ctx, &args));
  assert_int_equal(pool.taken, kernel_attention_cached.scratch(&ctx, &args));
  assert_int_equal(fault.kind, KERNEL_FAULT_NONE);
  free_pool(&pool);
}

static void test_rings(void **state) {
  (void)state;
  ring reference = {0}, before = {0};
  fill_ring(&reference);
  before = reference;
  for (int at = 0; at < TOKENS; at++) attend_ring(&reference, 1, at, 1);
  for (int at = 0; at < TOKENS; attend_ring(&before, 1, at++, 1))
    for (int n = 1; n <= TOKENS - at; n++)
      for (int n_threads = 1; n_threads <= 5; n_threads += 2) {
        ring ring = before;
        attend_ring(&ring, n_threads, at, n);
        for (int h = 0; h < HEADS; h++)
          for (int i = at; i < at + n; i++)
            for (int d = 0; d < DIM; d++)
              assert_true(fabsf(ring.out[h][i][d] - reference.out[h][i][d]) <= 1e-6F);
      }
}

/* The run reports exactly the invalid positions, and then stores nothing. */
static void test_ring_positions(void **state) {
  (void)state;
  static const int64_t wrong[] = {-1, INT64_MIN, INT64_MAX - RING};
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
    ring cache = {0};
    fill_ring(&cache);
    const ring before = cache;
    int64_t at = wrong[i];
    const attention_cached_args args = {.q = some_rows(cache.q, HEADS, TOKENS, 0, 1),
                                        .new_k = some_rows(cache.k, KV, TOKENS, 0, 1),
                                        .new_v = some_rows(cache.v, KV, TOKENS, 0, 1),
                                        .position = {.data = &at, .type = DTYPE_I64},
                                        .k = some_rows(cache.keys, KV, RING, 0, RING),
                                        .v = some_rows(cache.values, KV, RING, 0, RING),
                                        .out = some_rows(cache.out, HEADS, TOKENS, 0, 1),
                                        .sizes = {1, KV, HEADS / KV, 1, RING, DIM, DIM},
                                        .window = WINDOW,
                                        .max_new_rows = RING - WINDOW + 1,
                                        .scale = 1};
    test_pool pool = {.grants = 1};
    kernel_fault fault = {0};
    kernel_context ctx = make_context(&pool, &fault);
    assert_true(kernel_attention_cached.run(&ctx, &args));
    assert_int_equal(fault.kind, KERNEL_FAULT_ROWS);
    assert_true(fault.value == at && fault.low == 1 && fault.high == RING);
    assert_memory_equal(&cache, &before, sizeof cache);
    free_pool(&pool);
  }
}

/* Multiplies each row by a number, or adds it, in several shares; either operand has them. */
static void test_rows_with_numbers(void **state) {
  enum { OUTER = 3, ROWS = 5, ROW = 5000, N = OUTER * ROWS * ROW };
  float *values = malloc(sizeof *values * N), *out = malloc(sizeof *out * N), numbers[ROWS];
  kernel_fault fault = {0};
  test_pool pool = {.grants = MAX_GRANTS};
  const kernel_context ctx = make_context(&pool, &fault);
  (void)state;
  for (int i = 0; i < N; i++) values[i] = (float)(i % 1009) - 500;
  for (int i = 0; i < ROWS; i++) numbers[i] = (float)(i * i) - 3.5F;
  for (int c = 0; c < 4; c++) {
    const int at = c % 2;
    short_elementwise_args args = {.head = {.n_inputs = 2, .n_steps = 1, .n = N, .out = out}};
    args.inputs[at] = (ktensor){values, DTYPE_F32, 1, {N}, {1}};
    args.inputs[1 - at] = (ktensor){numbers, DTYPE_F32, 3, {OUTER, ROWS, ROW}, {0, 1, 0}};
    args.steps[0] = (kstep){.kind = c < 2 ? FLOAT_STEP_MUL : FLOAT_STEP_ADD,
                            .arity = 2,
                            .operand_type = DTYPE_F32,
                            .type = DTYPE_F32,
                            .operands = {{KSTEP_INPUT, 0}, {KSTEP_INPUT, 1}}};
    assert_true(kernel_short_elementwise.run(&ctx, &args));
    for (int i = 0; i < N; i++) {
      const float number = numbers[i / ROW % ROWS];
      assert_true(out[i] == (c < 2 ? values[i] * number : values[i] + number));
    }
  }
  assert_int_equal(pool.taken, 0);
  free_pool(&pool);
  free(values);
  free(out);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_integer_steps),
      cmocka_unit_test(test_rows_with_numbers),
      cmocka_unit_test(test_integer_powers_and_shifts),
      cmocka_unit_test(test_float_steps),
      cmocka_unit_test(test_vector_functions_round_well),
      cmocka_unit_test(test_sigmoid_of_large),
      cmocka_unit_test(test_largest),
      cmocka_unit_test(test_float_to_integer_is_defined),
      cmocka_unit_test(test_double_to_half_rounds_once),
      cmocka_unit_test(test_halves_survive),
      cmocka_unit_test(test_integers_wrap),
      cmocka_unit_test(test_products),
      cmocka_unit_test(test_batches),
      cmocka_unit_test(test_scratch_runs_out),
      cmocka_unit_test(test_split_variance),
      cmocka_unit_test(test_rings),
      cmocka_unit_test(test_ring_positions),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
