/* Compares products with a packed b with the same products with a plain b, bit for bit. All
 * operands are small integers times powers of two, so that every sum is exact. Each number of rows
 * that has a kernel is tested, around panels' widths, with the baseline instructions and with all
 * that this processor has. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/cpu/kernels/gemm/matmul.h"
#include "backend/cpu/kernels/support/features.h"
#include "backend/cpu/kernels/support/rows.h"
#include "backend/cpu_levels.h"
#include "backend/encoded_rows.h"
#include "backend/kernel_pool.h"
#include "base/code_panels.h"
#include "base/hash.h"

enum { MAX_ROWS = 60, MAX_COLUMNS = 70, MAX_K = 512, BATCHES = 2 };

/* 1/2 or 2. */
static float exact_factor(void) { return random_number() % 2 ? 0.5F : 2; }

/* ---- packing, multiplying */

static void *pack(const matmul_args *args, test_pool *pool) {
  kernel_fault fault = {0};
  *pool = (test_pool){.grants = 1};
  kernel_context ctx = make_context(pool, &fault);
  assert_true(matmul_packs(args));
  assert_true(kernel_matmul_pack.run(&ctx, args));
  assert_int_equal(pool->taken, kernel_matmul_pack.scratch(&ctx, args));
  return pool->memory[0];
}

static void run(const matmul_args *args) {
  test_pool pool = {.grants = 1};
  kernel_fault fault = {0};
  kernel_context ctx = make_context(&pool, &fault);
  assert_true(kernel_matmul.run(&ctx, args));
  assert_true(pool.taken <= kernel_matmul.scratch(&ctx, args));
  free_pool(&pool);
}

/* Checks that both products have the same results. */
static void check(const char *name, matmul_args args, void *panels) {
  enum { SIZE = BATCHES * MAX_ROWS * MAX_COLUMNS + 16 };
  static float want[SIZE], got[SIZE]; /* large enough for any type */
  memset(want, 0x5a, sizeof want);
  memset(got, 0x5a, sizeof got);
  bool rounds = args.rounds;
  args.out = want;
  args.rounds = false;
  run(&args);
  args.panels = panels;
  args.is_packed = true;
  args.rounds = rounds;
  args.out = got;
  run(&args);
  if (memcmp(want, got, sizeof want) != 0)
    fail_msg("%s: (%d, %d) by (%d, %d), %d batches", name, (int)args.m, (int)args.k, (int)args.k,
             (int)args.n, (int)args.batches);
}

/* The rows of a, and a bias, in each type. */
typedef struct operands {
  float a[BATCHES * MAX_ROWS * MAX_K], bias[MAX_COLUMNS]; /* large enough for any type */
} operands;
static operands of_type[DTYPE_COUNT];

static void fill_operands(dtype t) {
  for (int64_t i = 0; i < BATCHES * MAX_ROWS * MAX_K; i++) {
    int64_t v = (int64_t)(random_number() % 5) - 2;
    store_row(COMPUTE_I64, t, element_at(of_type[t].a, t, i), 1, 1, &v);
  }
  for (int64_t i = 0; i < MAX_COLUMNS; i++)
    store_row(COMPUTE_I64, t, element_at(of_type[t].bias, t, i), 1, 1, &i);
}

static matmul_args args_of(dtype t, int64_t m, int64_t n, int64_t k) {
  return (matmul_args){.a = of_type[t].a,
                       .type = t,
                       .a_type = t,
                       .out_type = t,
                       .b_type = t,
                       .m = m,
                       .n = n,
                       .k = k,
                       .batches = 1,
                       .a_m = k,
                       .a_k = 1,
                       .alpha = 1,
                       .epilogue = conv_epilogue_none};
}

static const int64_t numbers_of_columns[] = {1, 8, 9, 15, 16, 17, 33, MAX_COLUMNS};

/* True if m rows are tested: with CLAVE_TEST_TURN (a commit) one m in 6, others each turn. */
static bool is_wanted(const char *name, int64_t m) {
  const char *turn = getenv("CLAVE_TEST_TURN");
  char text[128];
  snprintf(text, sizeof text, "%s %s", turn ? turn : "", name);
  return !turn || (hash_bytes(text, strlen(text)) + (uint64_t)m) % 6 == 0;
}

/* Tests all numbers of rows; a few also with a bias, a transposed a, batches. */
static void check_rows(const char *name, matmul_args args, void *panels) {
  for (args.m = 0; args.m <= MAX_ROWS; args.m++) {
    if (!is_wanted(name, args.m)) continue;
    check(name, args, panels);
    if (args.m % 7 != 5) continue;
    matmul_args own = args;
    own.bias = of_type[own.type].bias;
    own.bias_n = 1;
    own.alpha = 0.5;
    own.beta = 2;
    own.a_m = 1;
    own.a_k = own.m;
    own.batches = BATCHES;
    own.a_batch = (klayout){1, {BATCHES}, {own.m * own.k}};
    own.b_batch = (klayout){1, {BATCHES}, {0}};
    own.bias_batch = (klayout){1, {BATCHES}, {0}};
    check(name, own, panels);
  }
}

static void check_encoded(const encoded *encoded) {
  encoding encoding;
  assert_true(encoding_parse(encoded->name, &encoding));
  for (size_t i = 0; i < sizeof numbers_of_columns / sizeof *numbers_of_columns; i++) {
    matmul_args args = args_of(DTYPE_F32, 1, numbers_of_columns[i], encoded->k);
    test_pool pool;
    uint8_t *bytes = make_encoded(encoded, &encoding, args.n, exact_factor);
    args.b = bytes;
    args.encoding = encoding;
    args.b_k = 1;
    args.b_n = encoded->k;
    check_rows(encoded->name, args, pack(&args, &pool));
    free_pool(&pool);
    free(bytes);
  }
}

/* Tests cuts along panels and within them, also into parts larger than the product. */
static void test_cuts(void **state) {
  (void)state;
  static const gemm_cut cuts[] = {{64, 0}, {128, 0}, {512, 0}, {0, 96}};
  static float want[MAX_ROWS * MAX_COLUMNS], got[MAX_ROWS * MAX_COLUMNS];
  for (cpu_level level = CPU_PORTABLE; level <= CPU_AMX; level = next_level(level)) {
    cpu_use_at_most(level);
    for (size_t i = 0; i < sizeof numbers_of_columns / sizeof *numbers_of_columns; i++) {
      matmul_args args = args_of(DTYPE_F32, MAX_ROWS, numbers_of_columns[i], 67);
      args.b = of_type[DTYPE_F32].a + 1;
      args.b_k = args.n;
      args.b_n = 1;
      args.out = want;
      run(&args);
      args.out = got;
      for (size_t k = 0; k < sizeof cuts / sizeof *cuts; k++) {
        args.cut = cuts[k];
        run(&args);
        assert_memory_equal(got, want, (size_t)(args.m * args.n) * sizeof *got);
      }
    }
  }
}

static void test_encoded(void **state) {
  (void)state;
  static const encoded all[] = {{"int4:32", 96, 0, 0},
                                {"int4:32:zeros", 67, 0, 0},
                                {"int8", 131, 0, 0},
                                {"int8:64:zeros:f32", 1, 0, 0},
                                {"int5:32:bf16", 33, 0, 0},
                                {"int2:96:zeros", 200, 0, 0},
                                {"Q4_0", 64, 0, -1},
                                {"Q5_1", 32, 0, 2},
                                {"Q8_0", 96, 0, -1},
                                {"IQ4_NL", 64, 0, -1},
                                {"Q3_K", 256, 108, -1},
                                {"Q2_K", 256, 80, 82},
                                {"Q4_K", 512, 0, 2},
                                {"int4:16", 80, 0, 0},
                                {"int3:16:zeros", 67, 0, 0},
                                {"int8:48", 150, 0, 0},
                                {"int2:80:zeros:f32", 211, 0, 0}};
  for (cpu_level level = CPU_PORTABLE; level <= CPU_AMX; level = next_level(level)) {
    cpu_use_at_most(level);
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) check_encoded(&all[i]);
  }
}

/* Multiplies every code of 8-bit floats, one per column, by 2 and by 1. NaN codes follow the
 * columns, which no product may read. */
static void check_floats(const char *name, float (*value)(uint8_t)) {
  enum { CODES = 256 };
  static float x[MAX_ROWS], got[MAX_ROWS * CODES];
  uint8_t rows[CODES * (DECODED_AT_ONCE + 4)];
  const float scale = 0.5F;
  matmul_args args = args_of(DTYPE_F32, 1, CODES, 1);
  test_pool pool;
  assert_true(encoding_parse(name, &args.encoding));
  assert_int_equal(encoding_row_bytes(&args.encoding, 1), DECODED_AT_ONCE + 4);
  memset(rows, 0x7f, sizeof rows);
  for (int i = 0; i < CODES; i++) {
    rows[i * (DECODED_AT_ONCE + 4)] = (uint8_t)i;
    memcpy(rows + i * (DECODED_AT_ONCE + 4) + DECODED_AT_ONCE, &scale, sizeof scale);
  }
  for (int i = 0; i < MAX_ROWS; i++) x[i] = i % 2 ? 2 : 4;
  args.a = x;
  args.b = rows;
  args.b_k = args.b_n = 1;
  args.out = got;
  args.panels = pack(&args, &pool);
  args.is_packed = true;
  for (args.m = 1; args.m <= MAX_ROWS; args.m++) {
    run(&args);
    for (int64_t i = 0; i < args.m * CODES; i++) {
      float want = x[i / CODES] / 2 * value((uint8_t)(i % CODES));
      if (!(got[i] == want) && !(isnan(got[i]) && isnan(want)))
        fail_msg("%s, code %d of %d rows: %a, not %a", name, (int)(i % CODES), (int)args.m,
                 (double)got[i], (double)want);
    }
  }
  free_pool(&pool);
}

static void test_floats(void **state) {
  (void)state;
  for (cpu_level level = CPU_PORTABLE; level <= CPU_AMX; level = next_level(level)) {
    cpu_use_at_most(level);
    check_floats("e4m3", f8_e4m3_to_f32);
    check_floats("e5m2", f8_e5m2_to_f32);
  }
}

/* ---- a plain b */

static void check_layout(const char *name, dtype t, int64_t n, int64_t k, int64_t b_k,
                         int64_t b_n) {
  matmul_args args = args_of(t, 1, n, k);
  int64_t size = (k - 1) * b_k + (n - 1) * b_n + 1;
  void *b = malloc((size_t)size * dtype_size(t));
  test_pool pool;
  assert_non_null(b);
  for (int64_t i = 0; i < size; i++) {
    int64_t v = (int64_t)(random_number() % 17) - 8;
    store_row(COMPUTE_I64, t, element_at(b, t, i), 1, 1, &v);
  }
  args.b = b;
  args.b_k = b_k;
  args.b_n = b_n;
  check_rows(name, args, pack(&args, &pool));
  free_pool(&pool);
  args.rounds = t == DTYPE_F16 || t == DTYPE_BF16; /* to BF16, which holds these integers */
  if (args.rounds) {
    check_rows(name, args, pack(&args, &pool));
    free_pool(&pool);
  }
  free(b);
}

static void test_plain(void **state) {
  (void)state;
  static const int64_t depths[] = {1, 31, 64, 130, 300};
  static const dtype types[] = {DTYPE_F32, DTYPE_F16, DTYPE_BF16};
  for (cpu_level level = CPU_PORTABLE; level <= CPU_AMX; level = next_level(level)) {
    cpu_use_at_most(level);
    for (int i = 0; i < 3 * 5 * 8; i++) {
      dtype t = types[i % 3];
      int64_t k = depths[i / 3 % 5], n = numbers_of_columns[i / 15];
      check_layout("rows of b", t, n, k, n, 1);
      check_layout("columns of b", t, n, k, 1, k);
      if (n == 17) check_layout("b with gaps", t, n, k, 2 * n + 1, 2);
    }
  }
}

/* Operands that have no panels are reported as not packed. */
static void test_not_packed(void **state) {
  (void)state;
  matmul_args args = args_of(DTYPE_F32, 1, 1, 64);
  assert_true(encoding_parse("int8", &args.encoding));
  assert_true(matmul_packs(&args));
  args.k = 0;
  assert_false(matmul_packs(&args));
  args = args_of(DTYPE_F32, 1, 5, 7);
  args.b_batch = (klayout){2, {3, 4}, {0, 0}};
  assert_true(matmul_packs(&args));
  args.b_batch.strides[1] = 35;
  assert_false(matmul_packs(&args));
  args.b_batch.dims[1] = 1;
  assert_true(matmul_packs(&args));
  args.type = DTYPE_F64;
  assert_false(matmul_packs(&args));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_cuts),       cmocka_unit_test(test_encoded),
      cmocka_unit_test(test_floats),     cmocka_unit_test(test_plain),
      cmocka_unit_test(test_not_packed),
  };
  fill_operands(DTYPE_F32);
  fill_operands(DTYPE_F16);
  fill_operands(DTYPE_BF16);
  return cmocka_run_group_tests(tests, NULL, NULL);
}
