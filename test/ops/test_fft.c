/* The rule of Fft, and how a length is divided into passes. */
#include "ops/fft.h"
#include "test/ops/fixture.h"

static ir_fft fft_of(uint32_t x, ir_fft_kind kind, uint32_t out) {
  return (ir_fft){.x = x, .axis = -1, .kind = kind, .out = out};
}

static void expect_fft(uint32_t x, ir_fft_kind kind, uint32_t out) {
  ir_fft op = fft_of(x, kind, out);
  expect_good(IR_OP_FFT, &op);
}

static void refuse_fft(uint32_t x, ir_fft_kind kind, uint32_t out, const char *text) {
  ir_fft op = fft_of(x, kind, out);
  expect_bad(IR_OP_FFT, &op, text);
}

static void good_shapes(void **state) {
  (void)state;
  fixture_reset();
  uint32_t line = slot(DTYPE_F32, 2, 3, 7), whole = slot(DTYPE_F32, 3, 3, 7, 2),
           half = slot(DTYPE_F32, 3, 3, 4, 2), even = slot(DTYPE_F32, 2, 3, 6),
           open = slot(DTYPE_F32, 3, 3, -1, -1), open_line = slot(DTYPE_F32, 2, -1, -1);
  expect_fft(whole, IR_FFT_KIND_COMPLEX, whole);
  expect_fft(line, IR_FFT_KIND_FROM_REAL, whole);
  expect_fft(line, IR_FFT_KIND_FROM_REAL, half);
  expect_fft(half, IR_FFT_KIND_TO_REAL, line);
  expect_fft(half, IR_FFT_KIND_TO_REAL, even);
  expect_fft(open, IR_FFT_KIND_COMPLEX, whole);
  expect_fft(open_line, IR_FFT_KIND_FROM_REAL, open);
  expect_fft(open, IR_FFT_KIND_TO_REAL, open_line);
  ir_fft first = {.x = line, .kind = IR_FFT_KIND_FROM_REAL, .out = slot(DTYPE_F32, 3, 2, 7, 2)};
  expect_good(IR_OP_FFT, &first);
}

static void refused_shapes(void **state) {
  (void)state;
  fixture_reset();
  uint32_t line = slot(DTYPE_F32, 2, 3, 7), whole = slot(DTYPE_F32, 3, 3, 7, 2),
           half = slot(DTYPE_F32, 3, 3, 4, 2), triple = slot(DTYPE_F32, 3, 3, 7, 3),
           scalar = slot(DTYPE_F32, 0), pair = slot(DTYPE_F32, 1, 2),
           none = slot(DTYPE_F32, 3, 3, 0, 2), deep = slot(DTYPE_F32, 8, 1, 1, 1, 1, 1, 1, 1, 2);
  refuse_fft(triple, IR_FFT_KIND_COMPLEX, triple, "the last dimension of x should be 2");
  refuse_fft(line, IR_FFT_KIND_FROM_REAL, line, "the last dimension of out should be 2");
  refuse_fft(scalar, IR_FFT_KIND_COMPLEX, scalar, "the last dimension of x should be 2");
  refuse_fft(pair, IR_FFT_KIND_COMPLEX, pair, "axis -1 out of range for rank 0");
  refuse_fft(none, IR_FFT_KIND_COMPLEX, none, "a transform: expected at least 1 point, got 0");
  uint32_t many = slot(DTYPE_F32, 3, 0, 1, 2);
  fix.tensors[many].dims[1] = INT64_MAX / 2;
  refuse_fft(many, IR_FFT_KIND_COMPLEX, many, "a transform of 4611686018427387903 points, at most");
  refuse_fft(whole, IR_FFT_KIND_COMPLEX, half, "along the axis and out 4, of a transform of 7");
  refuse_fft(whole, IR_FFT_KIND_TO_REAL, line, "along the axis and out 7, of a transform of 7");
  refuse_fft(line, IR_FFT_KIND_FROM_REAL, slot(DTYPE_F32, 3, 3, 3, 2),
             "of a transform of 7 points");
  refuse_fft(deep, IR_FFT_KIND_FROM_REAL, deep, "out would have 9 dimensions, at most 8");
  refuse_fft(whole, IR_FFT_KIND_COMPLEX, slot(DTYPE_F64, 3, 3, 7, 2), "out");
  uint32_t narrow = slot(DTYPE_F16, 2, 3, 2), whole_number = slot(DTYPE_I32, 2, 3, 2);
  refuse_fft(narrow, IR_FFT_KIND_COMPLEX, narrow, "x: expected F32 or F64, got F16");
  refuse_fft(whole_number, IR_FFT_KIND_COMPLEX, whole_number, "x: expected F32 or F64, got I32");
  refuse_fft(whole, IR_FFT_KIND_COUNT, whole, "fft kind 3 is unknown");
  ir_fft op = fft_of(whole, IR_FFT_KIND_COMPLEX, whole);
  op.norm = IR_FFT_NORM_COUNT;
  expect_bad(IR_OP_FFT, &op, "fft norm 3 is unknown");
}

/* Every length is the product of its passes' radices, or has a prime factor that is not a radix. */
static void lengths_are_divided(void **state) {
  (void)state;
  fft_plan plan;
  int radices[FFT_MAX_PASSES];
  for (int64_t n = 1; n < 3000; n++) {
    int64_t product = 1, rest = n;
    for (int64_t p = 2; p <= 13; p++)
      while (rest % p == 0) rest /= p;
    assert_int_equal(fft_divide(n, &plan), rest == 1);
    assert_int_equal(plan.length, n);
    for (int i = fft_passes(&plan, radices) - 1; i >= 0; i--) product *= radices[i];
    assert_int_equal(product * rest, n);
  }
  assert_true(fft_divide(INT64_C(1) << 40, &plan));
  assert_int_equal(fft_passes(&plan, radices), 20);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(good_shapes),
      cmocka_unit_test(refused_shapes),
      cmocka_unit_test(lengths_are_divided),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
