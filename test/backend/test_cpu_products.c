/* Products in float, with a bias and with what follows them, against sums in double: around strips,
 * panels and blocks of k, with what every processor has and with all that this one has. The same
 * bits by any number of threads; nothing behind the result is written. */
#include <float.h>
#include <math.h>

#include "backend/cpu/kernels/gemm/matmul.h"
#include "backend/cpu/kernels/support/features.h"
#include "backend/cpu_levels.h"
#include "backend/followed.h"

enum { MOST_A = 1 << 18, MOST_B = 1 << 19, MOST_OUT = 1 << 16, GUARD = 1024, MOST_THREADS = 8 };

static float a[MOST_A], b[MOST_B], bias[MOST_OUT], added[MOST_OUT];
static double sums[MOST_OUT];
static float out[MOST_OUT + GUARD], before[MOST_OUT + GUARD], followed[MOST_OUT + GUARD];

/* In [-1, 1), bits mixed so that no two are like each other, however far apart. */
static void fill(float *x, int64_t n, uint32_t seed) {
  for (int64_t i = 0; i < n; i++) {
    uint32_t bits = (uint32_t)i * 0x9e3779b9 + seed;
    bits = (bits ^ bits >> 16) * 0x85ebca6b;
    bits = (bits ^ bits >> 13) * 0xc2b2ae35;
    x[i] = (float)(int32_t)(bits ^ bits >> 16) * 0x1p-31F;
  }
}

typedef struct sizes {
  int64_t batches, m, n, k;
} sizes;
static const sizes all[] = {{1, 7, 70, 1030},  {1, 61, 65, 515}, {1, 24, 270, 1100},
                            {1, 13, 530, 77},  {1, 50, 9, 0},    {1, 37, 31, 1},
                            {3, 50, 150, 200}, {5, 8, 17, 33},   {1, 290, 48, 70}};

static int64_t result_size(const matmul_args *p) { return p->batches * p->m * p->n; }

static matmul_args args_of(const sizes *z) {
  return (matmul_args){.a = a,
                       .b = b,
                       .out = out,
                       .type = DTYPE_F32,
                       .b_type = DTYPE_F32,
                       .m = z->m,
                       .n = z->n,
                       .k = z->k,
                       .batches = z->batches,
                       .a_m = z->k,
                       .a_k = 1,
                       .b_k = z->n,
                       .b_n = 1,
                       .a_batch = {1, {z->batches}, {z->m * z->k}},
                       .b_batch = {1, {z->batches}, {0}},
                       .bias_batch = {1, {z->batches}, {0}},
                       .alpha = 1,
                       .tail = conv_tail_none};
}

/* A bias of the result's size lies where the result is to be. */
static void multiply(const matmul_args *p, int n_threads) {
  test_pool pool;
  for (int64_t i = 0; i < result_size(p) + GUARD; i++) out[i] = -99;
  if (p->bias == out) memcpy(out, bias, (size_t)result_size(p) * sizeof *out);
  run_kernel(&kernel_matmul, p, n_threads, &pool);
  free_pool(&pool);
}

static float rounded(const matmul_args *p, float x) {
  return p->rounds ? bf16_to_f32(f32_to_bf16(x)) : x;
}

/* The product alone, row by row of b. */
static void find_sums(const matmul_args *p) {
  memset(sums, 0, (size_t)result_size(p) * sizeof *sums);
  for (int64_t i = 0; i < p->batches * p->m; i++)
    for (int64_t k = 0; k < p->k; k++) {
      const double x = (double)rounded(p, a[i * p->k + k]);
      const float *row = b + i / p->m * p->b_batch.strides[0] + k * p->n;
      for (int64_t j = 0; j < p->n; j++) sums[i * p->n + j] += x * (double)rounded(p, row[j]);
    }
}

static double want_at(const matmul_args *p, int64_t batch, int64_t row, int64_t column) {
  const int64_t at = batch * p->bias_batch.strides[0] + row * p->bias_m + column * p->bias_n;
  return p->alpha * sums[(batch * p->m + row) * p->n + column] +
         (p->bias ? p->beta * (double)bias[at] : 0);
}

/* More than k roundings, up as often as down, and much less than a product. */
static void compare(const matmul_args *p) {
  const double allowed = FLT_EPSILON * (8 + (double)p->k / 2);
  const float *got = out;
  for (int64_t batch = 0; batch < p->batches; batch++)
    for (int64_t i = 0; i < p->m; i++)
      for (int64_t j = 0; j < p->n; j++, got++) {
        const double want = want_at(p, batch, i, j);
        if (!(fabs((double)*got - want) <= allowed))
          fail_msg("(%d, %d) by %d: element (%d, %d) is %a, not %a", (int)p->m, (int)p->k,
                   (int)p->n, (int)i, (int)j, (double)*got, want);
      }
  for (int i = 0; i < GUARD; i++) assert_true(got[i] == -99);
}

static void check_threads(const matmul_args *p) {
  const size_t bytes = (size_t)(result_size(p) + GUARD) * sizeof *out;
  memcpy(before, out, bytes);
  for (int n_threads = 2; n_threads <= MOST_THREADS; n_threads += 3) {
    multiply(p, n_threads);
    assert_memory_equal(out, before, bytes);
  }
}

/* The same bits as by sums, limits and lists of steps over the result, in `before`. */
static void check_followed(matmul_args p) {
  const int64_t n = result_size(&p);
  if (!matmul_takes_tail(&p)) return;
  matmul_args q = p;
  q.tail = (conv_tail){.added = added, .low = -0.5F, .high = 2};
  multiply(&q, 3);
  for (int64_t i = 0; i < n + GUARD; i++)
    assert_true(out[i] == (i < n ? fminf(fmaxf(before[i] + added[i], -0.5F), 2) : -99));
  for (int i = 0; i < FOLLOWED_LISTS; i++) {
    p.steps = followed_list(i, n, p.n, added);
    multiply(&p, 3);
    memcpy(followed, before, (size_t)(n + GUARD) * sizeof *out);
    follow(p.steps, followed);
    assert_memory_equal(out, followed, (size_t)(n + GUARD) * sizeof *out);
  }
}

static void check_one(const matmul_args *p) {
  multiply(p, 1);
  compare(p);
  check_threads(p);
  check_followed(*p);
}

/* None, a row for all rows, and one for each, where the result is to be; with factors, a number for
 * each row. */
static void check_biases(matmul_args p) {
  find_sums(&p);
  check_one(&p);
  p.bias = bias;
  p.alpha = -0.75;
  p.beta = 0.5;
  p.bias_m = 1;
  check_one(&p);
  p.alpha = p.beta = p.bias_n = 1;
  p.bias_m = 0;
  check_one(&p);
  p.bias = out;
  p.bias_m = p.n;
  p.bias_batch.strides[0] = p.m * p.n;
  check_one(&p);
}

static void check_batches_of_b(matmul_args p) {
  p.b_batch.strides[0] = p.n * p.k;
  if (p.batches > 1) check_biases(p);
}

static void check_packed(matmul_args p, bool rounds) {
  test_pool pool;
  p.rounds = rounds;
  run_kernel(&kernel_matmul_pack, &p, 1, &pool);
  p.panels = pool.memory[0];
  p.is_packed = true;
  check_biases(p);
  free_pool(&pool);
}

static void test_products(void **state) {
  (void)state;
  for (cpu_level level = CPU_PORTABLE; level <= CPU_AMX; level = next_level(level)) {
    cpu_use_at_most(level);
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
      const matmul_args p = args_of(&all[i]);
      assert_true(result_size(&p) <= MOST_OUT && p.batches * p.n * p.k <= MOST_B);
      assert_true(p.batches * p.m * p.k <= MOST_A);
      check_biases(p);
      if (p.k == 0) continue;
      check_batches_of_b(p);
      check_packed(p, false);
      check_packed(p, true);
    }
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_products)};
  fill(a, MOST_A, 1);
  fill(b, MOST_B, 2);
  fill(bias, MOST_OUT, 3);
  fill(added, MOST_OUT, 4);
  return cmocka_run_group_tests(tests, NULL, NULL);
}
