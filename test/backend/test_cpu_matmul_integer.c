/* Compares products of integers with plain sums, with the baseline instructions and with all that
 * this processor has. There are remainders of words and of tiles of rows and columns, empty sums,
 * and all products at their largest. Results are sums, floats or codes, with and without an added
 * tensor and a step in between; b is plain or in tiles. */
#include "backend/cpu/kernels/gemm/matmul_integer.h"

#include <math.h>
#include <string.h>

#include "backend/cpu/kernels/gemm/matmul_integer_tiles.h"
#include "backend/cpu/kernels/support/features.h"
#include "backend/cpu_levels.h"
#include "backend/kernel_pool.h"

enum { MOST = 1 << 19, MAX_COLUMNS = 1024, BEHIND = 64 };

static uint8_t a[MOST];
static int8_t b[MOST];
static int32_t bias[MAX_COLUMNS], sums[MOST];
static float scale[MAX_COLUMNS], shift[MAX_COLUMNS], added[MOST];
static union {
  int32_t sums[MOST];
  float floats[MOST];
  uint8_t codes[4 * MOST];
} out;

static void find_sums(const matmul_integer_args *args) {
  for (int64_t m = 0; m < args->m; m++)
    for (int64_t n = 0; n < args->n; n++) {
      int64_t sum = args->bias ? args->bias[n] : 0;
      for (int64_t k = 0; k < args->k; k++) {
        const uint8_t x = a[m * args->k + k];
        sum += (int64_t)(args->type == DTYPE_I8 ? (int8_t)x : x) * b[n * args->k + k];
      }
      sums[m * args->n + n] = (int32_t)sum;
    }
}

/* Returns the value of element i, computed in the formula's order, with relu if args has a step. */
static float float_at(const matmul_integer_args *args, int64_t i) {
  const requantise_args *own = &args->formula;
  float x = (float)sums[i] * scale[i % args->n];
  x = x + shift[i % args->n];
  if (own->terms[1].x) x = x + added[i];
  if (args->steps.head.n_steps) x = x < 0 ? 0 : x;
  return fminf(own->high, fmaxf(own->low, x));
}

static int code_at(const matmul_integer_args *args, int64_t i) {
  const float x = rintf(float_at(args, i) * args->formula.inverse) + args->formula.zero;
  return (int)fminf(args->formula.greatest, fmaxf(args->formula.least, x));
}

static void run(const matmul_integer_args *args) {
  test_pool pool;
  memset(&out, 99, (size_t)(args->m * args->n) * sizeof *out.sums + BEHIND);
  run_kernel(&kernel_matmul_integer, args, 3, &pool);
  free_pool(&pool);
}

static void check_one(const matmul_integer_args *args) {
  const int64_t n = args->m * args->n, size = args->makes == INTEGER_CODES ? 1 : 4;
  run(args);
  for (int64_t i = 0; i < n; i++) {
    if (args->makes == INTEGER_SUMS) assert_int_equal(out.sums[i], sums[i]);
    if (args->makes == INTEGER_FLOATS) assert_true(out.floats[i] == float_at(args, i));
    if (args->makes == INTEGER_CODES) assert_int_equal(out.codes[i], code_at(args, i) & 255);
  }
  for (int64_t i = n * size; i < n * size + BEHIND; i++) assert_int_equal(out.codes[i], 99);
}

static void check(const matmul_integer_args *args) {
  matmul_integer_args tiled = *args;
  test_pool pool;
  check_one(args);
  run_kernel(&kernel_matmul_integer_pack, args, 1, &pool);
  tiled.tiles = pool.memory[0];
  tiled.in_tiles = true;
  tiled.b = NULL;
  check_one(&tiled);
  free_pool(&pool);
}

/* Checks a formula. which: bits that select an added tensor, a step, limits and signed codes. */
static void check_formula(const matmul_integer_args *given, integer_result makes, int which) {
  matmul_integer_args args = *given;
  args.makes = makes;
  args.formula = (requantise_args){
      .terms = {{.type = DTYPE_I32, .scale = {.of_channel = scale}, .bias = {.of_channel = shift}},
                {.x = which & 1 ? added : NULL, .type = DTYPE_F32, .scale = {.number = 1}}},
      .type = makes == INTEGER_FLOATS ? DTYPE_F32
              : which & 8             ? DTYPE_I8
                                      : DTYPE_U8,
      .low = which & 4 ? -3 : -INFINITY,
      .high = which & 4 ? 5 : INFINITY,
      .inverse = 20,
      .zero = which & 8 ? -3 : 9,
      .least = which & 8 ? -128 : 0,
      .greatest = which & 8 ? 127 : 255};
  if (which & 2) {
    args.steps.head = (elementwise_head){.n_inputs = 1, .n_steps = 1};
    args.steps.steps[0] = (kstep){.role = KSTEP_MAP,
                                  .kind = FLOAT_STEP_RELU,
                                  .operand_type = DTYPE_F32,
                                  .type = DTYPE_F32,
                                  .arity = 1,
                                  .operands = {{.source = KSTEP_INPUT}}};
  }
  check(&args);
}

static void fill(int64_t k, bool largest) {
  uint32_t seed = 7;
  for (int i = 0; i < MOST; i++) {
    seed = seed * 1664525U + 1013904223U;
    a[i] = largest ? 255 : (uint8_t)(seed >> 20);
    b[i] = largest ? -128 : (int8_t)(seed >> 12);
    added[i] = (float)(int)(seed >> 28) - 8;
  }
  for (int i = 0; i < MAX_COLUMNS; i++) {
    bias[i] = i * 1000 - 77;
    scale[i] = (float)(i % 5 + 1) / 4096 / (float)(k + 1);
    shift[i] = (float)(i % 7) - 3;
  }
}

/* Checks two formulas with each instruction set that the processor has. */
static void check_levels(const matmul_integer_args *args, int which) {
  for (cpu_level level = CPU_PORTABLE; level <= CPU_AMX; level = next_level(level)) {
    cpu_use_at_most(level);
    check(args);
    for (int i = which; i < which + 2; i++) {
      check_formula(args, INTEGER_CODES, i);
      check_formula(args, INTEGER_FLOATS, i & 7);
    }
  }
}

static void test_products(void **state) {
  static const int64_t sizes[][3] = {/* m, n, k */
                                     {1, 1, 1},     {9, 7, 20},    {64, 16, 64},  {65, 33, 67},
                                     {130, 130, 3}, {16, 48, 66},  {17, 160, 65}, {3, 20, 1029},
                                     {5, 4, 0},     {0, 4, 8},     {4, 0, 8},     {200, 20, 70},
                                     {17, 770, 40}, {300, 64, 64}, {5, 770, 520}};
  (void)state;
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
    for (int variant = 0; variant < 8; variant++) {
      const matmul_integer_args args = {.a = a,
                                        .b = b,
                                        .bias = variant & 1 ? bias : NULL,
                                        .out = &out,
                                        .type = variant & 2 ? DTYPE_I8 : DTYPE_U8,
                                        .m = sizes[i][0],
                                        .n = sizes[i][1],
                                        .k = sizes[i][2]};
      fill(args.k, variant & 4);
      find_sums(&args);
      check_levels(&args, 2 * variant);
    }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_products)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
