/* Compares products in float, with a bias and an epilogue, with sums in double, for sizes around
 * strips, panels and blocks of k, with the baseline instructions and with all that this processor
 * has. Results have the same bits with any number of threads, and nothing after them is written. */
#include <float.h>
#include <math.h>

#include "backend/cpu/kernels/gemm/matmul.h"
#include "backend/cpu/kernels/support/features.h"
#include "backend/cpu_levels.h"
#include "backend/followed.h"

enum { MAX_A = 1 << 18, MAX_B = 1 << 19, MAX_OUT = 1 << 16, GUARD = 1024, MAX_THREADS = 8 };

static float a[MAX_A], b[MAX_B], bias[MAX_OUT], added[MAX_OUT];
static double sums[MAX_OUT];
static float out[MAX_OUT + GUARD], before[MAX_OUT + GUARD], followed[MAX_OUT + GUARD];

/* Fills n values in [-1, 1) with mixed bits, so that no two values are related. */
static void fill(float *values, int64_t n, uint32_t seed) {
  for (int64_t i = 0; i < n; i++) {
    uint32_t bits = (uint32_t)i * 0x9e3779b9 + seed;
    bits = (bits ^ bits >> 16) * 0x85ebca6b;
    bits = (bits ^ bits >> 13) * 0xc2b2ae35;
    values[i] = (float)(int32_t)(bits ^ bits >> 16) * 0x1p-31F;
  }
}

typedef struct sizes {
  int64_t batches, m, n, k;
} sizes;
static const sizes all[] = {{1, 7, 70, 1030},  {1, 61, 65, 515}, {1, 24, 270, 1100},
                            {1, 13, 530, 77},  {1, 50, 9, 0},    {1, 37, 31, 1},
                            {3, 50, 150, 200}, {5, 8, 17, 33},   {1, 290, 48, 70}};

static int64_t result_size(const matmul_args *args) { return args->batches * args->m * args->n; }

static matmul_args args_of(const sizes *sizes) {
  return (matmul_args){.a = a,
                       .b = b,
                       .out = out,
                       .type = DTYPE_F32,
                       .b_type = DTYPE_F32,
                       .m = sizes->m,
                       .n = sizes->n,
                       .k = sizes->k,
                       .batches = sizes->batches,
                       .a_m = sizes->k,
                       .a_k = 1,
                       .b_k = sizes->n,
                       .b_n = 1,
                       .a_batch = {1, {sizes->batches}, {sizes->m * sizes->k}},
                       .b_batch = {1, {sizes->batches}, {0}},
                       .bias_batch = {1, {sizes->batches}, {0}},
                       .alpha = 1,
                       .epilogue = conv_epilogue_none};
}

/* Runs the product. A bias of the result's size is first copied to the memory of the result. */
static void multiply(const matmul_args *args, int n_threads) {
  test_pool pool;
  for (int64_t i = 0; i < result_size(args) + GUARD; i++) out[i] = -99;
  if (args->bias == out) memcpy(out, bias, (size_t)result_size(args) * sizeof *out);
  run_kernel(&kernel_matmul, args, n_threads, &pool);
  free_pool(&pool);
}

static float rounded(const matmul_args *args, float x) {
  return args->rounds ? bf16_to_f32(f32_to_bf16(x)) : x;
}

/* Computes the product without an epilogue, row by row of b. */
static void find_sums(const matmul_args *args) {
  memset(sums, 0, (size_t)result_size(args) * sizeof *sums);
  for (int64_t i = 0; i < args->batches * args->m; i++)
    for (int64_t k = 0; k < args->k; k++) {
      const double x = (double)rounded(args, a[i * args->k + k]);
      const float *row = b + i / args->m * args->b_batch.strides[0] + k * args->n;
      for (int64_t j = 0; j < args->n; j++)
        sums[i * args->n + j] += x * (double)rounded(args, row[j]);
    }
}

static double want_at(const matmul_args *args, int64_t batch, int64_t row, int64_t column) {
  const int64_t at =
      batch * args->bias_batch.strides[0] + row * args->bias_m + column * args->bias_n;
  return args->alpha * sums[(batch * args->m + row) * args->n + column] +
         (args->bias ? args->beta * (double)bias[at] : 0);
}

/* Allows for roundings of k terms in either direction, far less than the size of one product. */
static void compare(const matmul_args *args) {
  const double allowed = FLT_EPSILON * (8 + (double)args->k / 2);
  const float *got = out;
  for (int64_t batch = 0; batch < args->batches; batch++)
    for (int64_t i = 0; i < args->m; i++)
      for (int64_t j = 0; j < args->n; j++, got++) {
        const double want = want_at(args, batch, i, j);
        if (!(fabs((double)*got - want) <= allowed))
          fail_msg("(%d, %d) by %d: element (%d, %d) is %a, not %a", (int)args->m, (int)args->k,
                   (int)args->n, (int)i, (int)j, (double)*got, want);
      }
  for (int i = 0; i < GUARD; i++) assert_true(got[i] == -99);
}

static void check_threads(const matmul_args *args) {
  const size_t bytes = (size_t)(result_size(args) + GUARD) * sizeof *out;
  memcpy(before, out, bytes);
  for (int n_threads = 2; n_threads <= MAX_THREADS; n_threads += 3) {
    multiply(args, n_threads);
    assert_memory_equal(out, before, bytes);
  }
}

/* Checks that results have the bits of sums, limits and steps applied afterwards, in `before`. */
static void check_followed(matmul_args args) {
  const int64_t n = result_size(&args);
  if (!matmul_accepts_epilogue(&args)) return;
  matmul_args own = args;
  own.epilogue = (conv_epilogue){.added = added, .low = -0.5F, .high = 2};
  multiply(&own, 3);
  for (int64_t i = 0; i < n + GUARD; i++)
    assert_true(out[i] == (i < n ? fminf(fmaxf(before[i] + added[i], -0.5F), 2) : -99));
  for (int i = 0; i < FOLLOWED_LISTS; i++) {
    args.steps = followed_list(i, n, args.n, added);
    multiply(&args, 3);
    memcpy(followed, before, (size_t)(n + GUARD) * sizeof *out);
    follow(args.steps, followed);
    assert_memory_equal(out, followed, (size_t)(n + GUARD) * sizeof *out);
  }
}

static void check_one(const matmul_args *args) {
  multiply(args, 1);
  compare(args);
  check_threads(args);
  check_followed(*args);
}

/* Four kinds of bias: none; one number per row, with factors; one row for all rows; a full bias in
 * the memory of the result. */
static void check_biases(matmul_args args) {
  find_sums(&args);
  check_one(&args);
  args.bias = bias;
  args.alpha = -0.75;
  args.beta = 0.5;
  args.bias_m = 1;
  check_one(&args);
  args.alpha = args.beta = args.bias_n = 1;
  args.bias_m = 0;
  check_one(&args);
  args.bias = out;
  args.bias_m = args.n;
  args.bias_batch.strides[0] = args.m * args.n;
  check_one(&args);
}

static void check_batches_of_b(matmul_args args) {
  args.b_batch.strides[0] = args.n * args.k;
  if (args.batches > 1) check_biases(args);
}

static void check_packed(matmul_args args, bool rounds) {
  test_pool pool;
  args.rounds = rounds;
  run_kernel(&kernel_matmul_pack, &args, 1, &pool);
  args.panels = pool.memory[0];
  args.is_packed = true;
  check_biases(args);
  free_pool(&pool);
}

static void test_products(void **state) {
  (void)state;
  for (cpu_level level = CPU_PORTABLE; level <= CPU_AMX; level = next_level(level)) {
    cpu_use_at_most(level);
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
      const matmul_args args = args_of(&all[i]);
      assert_true(result_size(&args) <= MAX_OUT && args.batches * args.n * args.k <= MAX_B);
      assert_true(args.batches * args.m * args.k <= MAX_A);
      check_biases(args);
      if (args.k == 0) continue;
      check_batches_of_b(args);
      check_packed(args, false);
      check_packed(args, true);
    }
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_products)};
  fill(a, MAX_A, 1);
  fill(b, MAX_B, 2);
  fill(bias, MAX_OUT, 3);
  fill(added, MAX_OUT, 4);
  return cmocka_run_group_tests(tests, NULL, NULL);
}
