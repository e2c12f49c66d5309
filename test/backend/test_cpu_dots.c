/* Compares products of rows that are rounded to 8 bits and panels of codes with the same sums one
 * by one, bit for bit, for each instruction set of the processor. Numbers of rows and columns are
 * odd; there are more rows than a task has, and more of k than the first-level cache holds. */
#include <math.h>

#include "backend/cpu/kernels/gemm/matmul.h"
#include "backend/cpu/kernels/support/features.h"
#include "backend/encoded_rows.h"
#include "backend/kernel_pool.h"
#include "base/code_panels.h"
#include "base/rounded.h"

enum { MAX_ROWS = 139, MAX_COLUMNS = 83, MAX_K = 1280, BATCHES = 2 };

static float random_float(void) { return (float)(random_number() % 4001) / 1000 - 2; }

/* Rounds a row in groups of base/rounded.h. */
typedef struct row_codes {
  int8_t q[MAX_K];
  float scale[MAX_K / ROUNDED_GROUP];
} row_codes;

static row_codes codes_of_row(const matmul_args *args, int64_t batch, int64_t row) {
  row_codes codes;
  const float *left = (const float *)args->a + batch * args->m * args->k + row * args->a_m;
  for (int64_t k = 0; k < args->k; k += ROUNDED_GROUP) {
    float x[ROUNDED_GROUP] = {0};
    for (int64_t i = k; i < args->k && i < k + ROUNDED_GROUP; i++) x[i - k] = left[i * args->a_k];
    codes.scale[k / ROUNDED_GROUP] = rounded_group(x, ROUNDED_GROUP, codes.q + k);
  }
  return codes;
}

/* Adds scale * d * s * sum(queries * codes) of each span to total, and scale * m * l *
 * sum(queries). */
static float add_part(float total, const code_panels *of, const code_factors *factors,
                      const float *codes, const int8_t *queries, float scale) {
  int deep = DECODED_AT_ONCE / of->spans;
  for (int span = 0; span < of->spans; span++) {
    int32_t sum = 0, sum_of_q = 0;
    for (int k = span * deep; k < (span + 1) * deep; k++) {
      sum += queries[k] * (int32_t)codes[k];
      sum_of_q += queries[k];
    }
    float d = of->has_subs ? factors->d[span] * (float)factors->s[span] : factors->d[span],
          m = of->has_subs ? factors->m[span] * (float)factors->l[span] : factors->m[span];
    total = fmaf((float)sum, d * scale, total);
    if (of->has_lows) total = fmaf(scale * (float)sum_of_q, m, total);
  }
  return total;
}

static float sum_of(const matmul_args *args, const code_panels *of, const row_codes *row_codes,
                    int64_t column) {
  code_bytes row =
      (code_bytes)args->b + (size_t)column * encoding_row_bytes(&args->encoding, args->k);
  float codes[DECODED_AT_ONCE], total = 0;
  for (int64_t part = 0; part < of->parts; part++) {
    const code_factors factors = encoding_split(&args->encoding, row, args->k, part, codes);
    total = add_part(total, of, &factors, codes, row_codes->q + part * ROUNDED_GROUP,
                     row_codes->scale[part]);
  }
  return total;
}

static void compare(const char *name, const matmul_args *args, const float *got) {
  code_panels of;
  assert_true(code_panels_of(&args->encoding, args->k, &of));
  for (int64_t row = 0; row < args->batches * args->m; row++) {
    const row_codes codes = codes_of_row(args, row / args->m, row % args->m);
    for (int64_t column = 0; column < args->n; column++) {
      float want = sum_of(args, &of, &codes, column), is = got[row * args->n + column];
      if (args->bias) want = 0.5F * want + 2 * ((const float *)args->bias)[column];
      if (memcmp(&want, &is, sizeof is) != 0 && !(isnan(want) && isnan(is)))
        fail_msg("%s, (%d, %d) by %d columns, row %d, column %d: %a, not %a", name, (int)args->m,
                 (int)args->k, (int)args->n, (int)row, (int)column, (double)is, (double)want);
    }
  }
}

static void run(const char *name, const matmul_args *args) {
  static float out[BATCHES * MAX_ROWS * MAX_COLUMNS];
  matmul_args own = *args;
  test_pool pool = {.grants = 1};
  kernel_fault fault = {0};
  kernel_context ctx = make_context(&pool, &fault);
  own.out = out;
  memset(out, 0x5a, sizeof out);
  assert_true(kernel_matmul.run(&ctx, &own));
  assert_true(pool.taken <= kernel_matmul.scratch(&ctx, &own));
  free_pool(&pool);
  compare(name, args, out);
}

static float a[BATCHES * MAX_ROWS * MAX_K], bias[MAX_COLUMNS];

/* Fills rows with groups of different magnitudes, of zeros, and with elements not finite. */
static void fill_rows(int64_t k) {
  for (int64_t i = 0; i < BATCHES * MAX_ROWS * MAX_K; i++)
    a[i] = ldexpf(random_float(), (int)(i / ROUNDED_GROUP % 7) - 3);
  memset(a, 0, ROUNDED_GROUP * sizeof *a);
  a[2 * k + k / 2] = INFINITY;
  for (int i = 0; i < MAX_COLUMNS; i++) bias[i] = random_float();
}

static void check_rows(const char *name, matmul_args args) {
  static const int64_t numbers[] = {1, 2, 3, 4, 5, 6, 7, 17, MAX_ROWS};
  for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
    args.m = numbers[i];
    run(name, &args);
  }
  args.m = 5; /* transposed, in batches, with a bias */
  args.a_m = 1;
  args.a_k = args.m;
  args.batches = BATCHES;
  args.a_batch = (klayout){1, {BATCHES}, {args.m * args.k}};
  args.b_batch = args.bias_batch = (klayout){1, {BATCHES}, {0}};
  args.bias = bias;
  args.bias_n = 1;
  args.alpha = 0.5;
  args.beta = 2;
  run(name, &args);
}

static void check_form(const encoded *encoded, int64_t n) {
  matmul_args args = {.a = a,
                      .type = DTYPE_F32,
                      .b_type = DTYPE_F32,
                      .n = n,
                      .k = encoded->k,
                      .batches = 1,
                      .a_m = encoded->k,
                      .a_k = 1,
                      .b_k = 1,
                      .b_n = encoded->k,
                      .alpha = 1,
                      .epilogue = conv_epilogue_none};
  test_pool pool = {.grants = 1};
  kernel_fault fault = {0};
  kernel_context ctx = make_context(&pool, &fault);
  assert_true(encoding_parse(encoded->name, &args.encoding));
  uint8_t *bytes = make_encoded(encoded, &args.encoding, n, random_float);
  args.b = bytes;
  fill_rows(encoded->k);
  assert_true(matmul_rounds(&args));
  assert_true(kernel_matmul_pack.run(&ctx, &args));
  args.panels = pool.memory[0];
  args.is_packed = args.rounds = true;
  check_rows(encoded->name, args);
  free_pool(&pool);
  free(bytes);
}

static void test_sums(void **state) {
  (void)state;
  static const encoded all[] = {{"int8", 131, 0, 0},
                                {"int8:64:zeros:f32", 1250, 0, 0},
                                {"int4:32", 1248, 0, 0},
                                {"int4:96:zeros", 67, 0, 0},
                                {"int5:32:bf16", 1, 0, 0},
                                {"Q4_1", 64, 0, 2},
                                {"Q8_0", 1280, 0, -1},
                                {"Q3_K", 256, 108, -1},
                                {"Q2_K", 1280, 80, 82},
                                {"Q6_K", 768, 208, -1},
                                {"Q4_K", 512, 0, 2},
                                {"int4:16", 1264, 0, 0},
                                {"int8:48:zeros:f32", 643, 0, 0},
                                {"int2:16:zeros", 48, 0, 0}};
  static const int64_t columns[] = {1, 16, 33, MAX_COLUMNS};
  for (cpu_level level = CPU_PORTABLE; level <= CPU_AMX; level++) {
    cpu_use_at_most(level);
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
      check_form(&all[i], columns[(i + level) % 4]);
  }
}

static void test_what_is_rounded(void **state) {
  (void)state;
  matmul_args args = {.type = DTYPE_F32, .b_type = DTYPE_F32, .n = 5, .k = 64, .batches = 1};
  assert_true(matmul_packs(&args) && matmul_rounds(&args)); /* plain floats, to BF16 */
  assert_true(encoding_parse("e4m3", &args.encoding) && !matmul_rounds(&args));
  assert_true(encoding_parse("int4:16", &args.encoding) && matmul_rounds(&args));
  assert_true(encoding_parse("int4:32", &args.encoding) && matmul_rounds(&args));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_sums),
      cmocka_unit_test(test_what_is_rounded),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
