/* Products of rows that are rounded to 8 bits with panels of codes, against the same sums taken one
 * by one, bit for bit, with each of the processor's instruction sets: odd numbers of rows and
 * columns, more rows than a task has, more of k than the first-level cache keeps. */
#include <math.h>

#include "backend/cpu/kernels/gemm/matmul.h"
#include "backend/cpu/kernels/support/features.h"
#include "backend/encoded_rows.h"
#include "backend/kernel_pool.h"
#include "base/code_panels.h"
#include "base/rounded.h"

enum { MOST_ROWS = 139, MOST_COLUMNS = 83, MOST_K = 1280, BATCHES = 2 };

static float random_float(void) { return (float)(random_number() % 4001) / 1000 - 2; }

/* A row in groups of base/rounded.h. */
typedef struct row_codes {
  int8_t q[MOST_K];
  float scale[MOST_K / ROUNDED_GROUP];
} row_codes;

static row_codes codes_of_row(const matmul_args *p, int64_t batch, int64_t row) {
  row_codes r;
  const float *a = (const float *)p->a + batch * p->m * p->k + row * p->a_m;
  for (int64_t k = 0; k < p->k; k += ROUNDED_GROUP) {
    float x[ROUNDED_GROUP] = {0};
    for (int64_t i = k; i < p->k && i < k + ROUNDED_GROUP; i++) x[i - k] = a[i * p->a_k];
    r.scale[k / ROUNDED_GROUP] = rounded_group(x, ROUNDED_GROUP, r.q + k);
  }
  return r;
}

/* total += scale * d * s * sum of q * code over a span, and what the code 0 stands for. */
static float add_part(float total, const code_panels *of, const code_factors *f, const float *codes,
                      const int8_t *q, float scale) {
  int deep = DECODED_AT_ONCE / of->spans;
  for (int span = 0; span < of->spans; span++) {
    int32_t sum = 0, sum_of_q = 0;
    for (int k = span * deep; k < (span + 1) * deep; k++) {
      sum += q[k] * (int32_t)codes[k];
      sum_of_q += q[k];
    }
    float d = of->has_subs ? f->d[span] * (float)f->s[span] : f->d[span],
          m = of->has_subs ? f->m[span] * (float)f->l[span] : f->m[span];
    total = fmaf((float)sum, d * scale, total);
    if (of->has_lows) total = fmaf(scale * (float)sum_of_q, m, total);
  }
  return total;
}

static float sum_of(const matmul_args *p, const code_panels *of, const row_codes *r,
                    int64_t column) {
  code_bytes row = (code_bytes)p->b + (size_t)column * encoding_row_bytes(&p->encoding, p->k);
  float codes[DECODED_AT_ONCE], total = 0;
  for (int64_t part = 0; part < of->parts; part++) {
    const code_factors f = encoding_split(&p->encoding, row, p->k, part, codes);
    total = add_part(total, of, &f, codes, r->q + part * ROUNDED_GROUP, r->scale[part]);
  }
  return total;
}

static void compare(const char *name, const matmul_args *p, const float *got) {
  code_panels of;
  assert_true(code_panels_of(&p->encoding, p->k, &of));
  for (int64_t row = 0; row < p->batches * p->m; row++) {
    const row_codes r = codes_of_row(p, row / p->m, row % p->m);
    for (int64_t column = 0; column < p->n; column++) {
      float want = sum_of(p, &of, &r, column), is = got[row * p->n + column];
      if (p->bias) want = 0.5F * want + 2 * ((const float *)p->bias)[column];
      if (memcmp(&want, &is, sizeof is) != 0 && !(isnan(want) && isnan(is)))
        fail_msg("%s, (%d, %d) by %d columns, row %d, column %d: %a, not %a", name, (int)p->m,
                 (int)p->k, (int)p->n, (int)row, (int)column, (double)is, (double)want);
    }
  }
}

static void run(const char *name, const matmul_args *p) {
  static float out[BATCHES * MOST_ROWS * MOST_COLUMNS];
  matmul_args q = *p;
  test_pool pool = {.grants = 1};
  kernel_fault fault = {0};
  kernel_context ctx = make_context(&pool, &fault);
  q.out = out;
  memset(out, 0x5a, sizeof out);
  assert_true(kernel_matmul.run(&ctx, &q));
  assert_true(pool.taken <= kernel_matmul.scratch(&ctx, &q));
  free_pool(&pool);
  compare(name, p, out);
}

static float a[BATCHES * MOST_ROWS * MOST_K], bias[MOST_COLUMNS];

/* Groups of magnitudes that differ; one of zeros, one that is not finite. */
static void fill_rows(int64_t k) {
  for (int64_t i = 0; i < BATCHES * MOST_ROWS * MOST_K; i++)
    a[i] = ldexpf(random_float(), (int)(i / ROUNDED_GROUP % 7) - 3);
  memset(a, 0, ROUNDED_GROUP * sizeof *a);
  a[2 * k + k / 2] = INFINITY;
  for (int i = 0; i < MOST_COLUMNS; i++) bias[i] = random_float();
}

static void check_rows(const char *name, matmul_args p) {
  static const int64_t numbers[] = {1, 2, 3, 4, 5, 6, 7, 17, MOST_ROWS};
  for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
    p.m = numbers[i];
    run(name, &p);
  }
  p.m = 5; /* transposed, in batches, with a bias */
  p.a_m = 1;
  p.a_k = p.m;
  p.batches = BATCHES;
  p.a_batch = (klayout){1, {BATCHES}, {p.m * p.k}};
  p.b_batch = p.bias_batch = (klayout){1, {BATCHES}, {0}};
  p.bias = bias;
  p.bias_n = 1;
  p.alpha = 0.5;
  p.beta = 2;
  run(name, &p);
}

static void check_form(const encoded *c, int64_t n) {
  matmul_args p = {.a = a,
                   .type = DTYPE_F32,
                   .b_type = DTYPE_F32,
                   .n = n,
                   .k = c->k,
                   .batches = 1,
                   .a_m = c->k,
                   .a_k = 1,
                   .b_k = 1,
                   .b_n = c->k,
                   .alpha = 1,
                   .tail = conv_tail_none};
  test_pool pool = {.grants = 1};
  kernel_fault fault = {0};
  kernel_context ctx = make_context(&pool, &fault);
  assert_true(encoding_parse(c->name, &p.encoding));
  uint8_t *b = make_encoded(c, &p.encoding, n, random_float);
  p.b = b;
  fill_rows(c->k);
  assert_true(matmul_rounds(&p));
  assert_true(kernel_matmul_pack.run(&ctx, &p));
  p.panels = pool.memory[0];
  p.is_packed = p.rounds = true;
  check_rows(c->name, p);
  free_pool(&pool);
  free(b);
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
  static const int64_t columns[] = {1, 16, 33, MOST_COLUMNS};
  for (cpu_level level = CPU_PORTABLE; level <= CPU_AMX; level++) {
    cpu_use_at_most(level);
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
      check_form(&all[i], columns[(i + level) % 4]);
  }
}

static void test_what_is_rounded(void **state) {
  (void)state;
  matmul_args p = {.type = DTYPE_F32, .b_type = DTYPE_F32, .n = 5, .k = 64, .batches = 1};
  assert_true(matmul_packs(&p) && matmul_rounds(&p)); /* plain floats, to BF16 */
  assert_true(encoding_parse("e4m3", &p.encoding) && !matmul_rounds(&p));
  assert_true(encoding_parse("int4:16", &p.encoding) && matmul_rounds(&p));
  assert_true(encoding_parse("int4:32", &p.encoding) && matmul_rounds(&p));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_sums),
      cmocka_unit_test(test_what_is_rounded),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
