/* Compares products of floats that are rounded to BF16, two k at a time, with products in double,
 * within the error of sums in f32, with each of the processor's instruction sets. Rows and columns
 * fill no tile, k is odd, and elements are also infinite, NaN or subnormal. */
#include <math.h>

#include "backend/cpu/kernels/gemm/matmul.h"
#include "backend/cpu/kernels/support/features.h"
#include "backend/cpu/kernels/support/rows.h"
#include "backend/kernel_pool.h"

enum { MAX_ROWS = 61, MAX_COLUMNS = 67, MAX_K = 523 };

static float a[MAX_ROWS * MAX_K], b[MAX_COLUMNS * MAX_K]; /* large enough for any type */
static float bias[MAX_COLUMNS];

static float rounded(dtype t, const void *data, int64_t i) {
  float x;
  load_row(COMPUTE_F32, t, element_at(data, t, i), 1, 1, &x);
  return bf16_to_f32(f32_to_bf16(x));
}

static uint32_t seed;
static uint32_t random_number(void) { return seed = seed * 1664525U + 1013904223U, seed >> 8; }

static void fill(dtype t, void *data, int64_t n) {
  for (int64_t i = 0; i < n; i++) {
    float x = ldexpf((float)(random_number() % 100003) / 50000 - 1, (int)(i % 9) - 4);
    store_row(COMPUTE_F32, t, element_at(data, t, i), 1, 1, &x);
  }
}

static void compare(const matmul_args *args, const float *got) {
  for (int64_t row = 0; row < args->m; row++)
    for (int64_t column = 0; column < args->n; column++) {
      double want = args->bias ? (double)bias[column] : 0, size = fabs(want);
      for (int64_t k = 0; k < args->k; k++) {
        double x = rounded(args->type, args->a, row * args->a_m + k * args->a_k),
               y = rounded(args->b_type, args->b, column * args->b_n + k * args->b_k);
        want += x * y;
        size += fabs(x * y);
      }
      float is = got[row * args->n + column];
      bool good = isfinite(size)
                      ? fabs(is - want) <= 0x1p-24 * (double)(args->k + 8) * size + 0x1p-100
                  : isnan(want) ? isnan(is)
                                : is == want;
      if (!good)
        fail_msg("(%d, %d) by %d columns, row %d, column %d: %a, not %a", (int)args->m,
                 (int)args->k, (int)args->n, (int)row, (int)column, (double)is, want);
    }
}

static void check(matmul_args args) {
  static float out[MAX_ROWS * MAX_COLUMNS];
  test_pool packed = {.grants = 1}, pool = {.grants = 1};
  kernel_fault fault = {0};
  kernel_context pack = make_context(&packed, &fault), run = make_context(&pool, &fault);
  assert_true(matmul_rounds(&args));
  args.rounds = true;
  assert_true(kernel_matmul_pack.run(&pack, &args));
  assert_int_equal(packed.taken, kernel_matmul_pack.scratch(&pack, &args));
  args.panels = packed.memory[0];
  args.is_packed = true;
  args.out = out;
  memset(out, 0x5a, sizeof out);
  assert_true(kernel_matmul.run(&run, &args));
  assert_true(pool.taken <= kernel_matmul.scratch(&run, &args));
  compare(&args, out);
  free_pool(&pool);
  free_pool(&packed);
}

static matmul_args args_of(dtype type, int64_t m, int64_t n, int64_t k) {
  return (matmul_args){.a = a,
                       .b = b,
                       .type = DTYPE_F32,
                       .b_type = type,
                       .m = m,
                       .n = n,
                       .k = k,
                       .batches = 1,
                       .a_m = k,
                       .a_k = 1,
                       .b_k = 1,
                       .b_n = k,
                       .alpha = 1,
                       .epilogue = conv_epilogue_none};
}

static const dtype types[] = {DTYPE_F16, DTYPE_BF16};

static void test_sums(void **state) {
  (void)state;
  static const int64_t rows[] = {1, 2, 3, 16, 12, 13, 48, MAX_ROWS},
                       columns[] = {1, 8, 31, 32, 33, MAX_COLUMNS},
                       depths[] = {1, 2, 65, 128, 257, MAX_K};
  for (cpu_level level = CPU_PORTABLE; level <= CPU_AMX; level++) {
    cpu_use_at_most(level);
    for (int i = 0; i < 48; i++) {
      matmul_args args =
          args_of(types[i % 2], rows[i % 8], columns[i / 8], depths[((unsigned)i + level) % 6]);
      fill(DTYPE_F32, a, args.m * args.k);
      fill(args.b_type, b, args.n * args.k);
      if (i % 3 == 1) { /* transposed */
        args.a_m = args.b_n = 1;
        args.a_k = args.m;
        args.b_k = args.n;
      }
      if (i % 5 == 2) {
        fill(DTYPE_F32, bias, args.n);
        args.bias = bias;
        args.bias_n = 1;
        args.beta = 1;
      }
      check(args);
    }
  }
}

static void set(dtype t, void *data, int64_t i, float x) {
  store_row(COMPUTE_F32, t, element_at(data, t, i), 1, 1, &x);
}

/* Tests special values in rows and in columns. The largest F16 rounds to 65536 in BF16. Subnormals
 * may count as zeros, so they are not multiplied by an infinity. */
static void test_special(void **state) {
  (void)state;
  for (cpu_level level = CPU_PORTABLE; level <= CPU_AMX; level++) {
    cpu_use_at_most(level);
    for (int i = 0; i < 4; i++) {
      matmul_args args = args_of(types[i % 2], 9, 35, 77);
      fill(DTYPE_F32, a, args.m * args.k);
      fill(args.b_type, b, args.n * args.k);
      set(DTYPE_F32, a, 1 * args.k + 76, NAN);
      set(DTYPE_F32, a, 2 * args.k, INFINITY);
      set(DTYPE_F32, a, 3 * args.k + 5, 3.4e38F); /* rounds to infinity */
      for (int64_t k = 0; k < args.k && i < 2; k++) set(DTYPE_F32, a, 4 * args.k + k, 1e-40F);
      if (i >= 2) set(args.b_type, b, 1 * args.k + 3, -INFINITY);
      set(args.b_type, b, 2 * args.k + 76, NAN);
      set(args.b_type, b, 3 * args.k, 65504);
      set(args.b_type, b, 4 * args.k, 0x1p-24F);
      check(args);
    }
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_sums), cmocka_unit_test(test_special)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
