/* Tests random elements, and digests of elements. */
#include "base/drawn.h"

#include <cmocka.h>
#include <math.h>
#include <string.h>

static void test_drawn_floats(void **state) {
  (void)state;
  enum { N = 10000 };
  static float x[N];
  static double d[N];
  uint64_t seed = DRAWN_SEED, again = DRAWN_SEED;
  double sum = 0, squares = 0;
  draw_elements(DTYPE_F32, N, x, &seed);
  draw_elements(DTYPE_F64, N, d, &again);
  assert_int_equal(seed, again);
  for (int i = 0; i < N; i++) {
    assert_true(x[i] == (float)d[i] && fabs(d[i]) <= 6);
    sum += d[i];
    squares += d[i] * d[i];
  }
  assert_true(fabs(sum / N) < 0.05 && fabs(squares / N - 1) < 0.05);
  assert_true(x[0] != x[1]);
}

/* The first elements are always the same, on all machines. */
static void test_the_first_ones(void **state) {
  (void)state;
  uint16_t half[2], brain[2];
  uint64_t seed = DRAWN_SEED;
  double d[2];
  draw_elements(DTYPE_F64, 2, d, &seed);
  seed = DRAWN_SEED;
  draw_elements(DTYPE_F16, 2, half, &seed);
  seed = DRAWN_SEED;
  draw_elements(DTYPE_BF16, 2, brain, &seed);
  for (int i = 0; i < 2; i++) {
    assert_int_equal(half[i], f32_to_f16((float)d[i]));
    assert_int_equal(brain[i], f32_to_bf16((float)d[i]));
  }
}

static void test_integers_are_zeros(void **state) {
  (void)state;
  int32_t i[3] = {1, 2, 3};
  uint64_t seed = DRAWN_SEED;
  draw_elements(DTYPE_I32, 3, i, &seed);
  assert_true(!i[0] && !i[1] && !i[2] && seed == DRAWN_SEED);
}

static void expect(dtype t, size_t n, const void *left, const void *right, int alike) {
  char x[SHA256_TEXT], y[SHA256_TEXT];
  digest_elements(t, n, left, x);
  digest_elements(t, n, right, y);
  assert_int_equal(strcmp(x, y) == 0, alike);
}

static void test_digests(void **state) {
  (void)state;
  const uint32_t nan[2] = {0x7fc00000, 0xffc12345}, infinity[2] = {0x7f800000, 0xff800000};
  expect(DTYPE_F32, 1, &nan[0], &nan[1], 1);
  expect(DTYPE_F32, 1, &infinity[0], &infinity[1], 0);
  expect(DTYPE_F32, 1, &nan[0], &infinity[0], 0);
  expect(DTYPE_I32, 1, &nan[0], &nan[1], 0);
  const uint16_t halves[4] = {0x7e00, 0xfe01, 0x7c00, 0x8000};
  expect(DTYPE_F16, 1, &halves[0], &halves[1], 1);
  expect(DTYPE_F16, 1, &halves[0], &halves[2], 0);
  expect(DTYPE_BF16, 1, &halves[0], &halves[1], 0);
  const uint8_t e5m2[2] = {0x7d, 0xff}, e4m3[2] = {0x7f, 0xff};
  expect(DTYPE_F8_E5M2, 1, &e5m2[0], &e5m2[1], 1);
  expect(DTYPE_F8_E4M3, 1, &e4m3[0], &e4m3[1], 1);
  expect(DTYPE_F8_E4M3, 1, &e5m2[0], &e4m3[0], 0);
  static uint8_t large[5000];
  char whole[SHA256_TEXT], other[SHA256_TEXT];
  sha256 sha256;
  for (size_t i = 0; i < sizeof large; i++) large[i] = (uint8_t)(i * 7);
  sha256_begin(&sha256);
  sha256_add(&sha256, large, sizeof large);
  sha256_end(&sha256, whole);
  digest_elements(DTYPE_U8, sizeof large, large, other);
  assert_string_equal(whole, other);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_drawn_floats), cmocka_unit_test(test_the_first_ones),
      cmocka_unit_test(test_integers_are_zeros), cmocka_unit_test(test_digests)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
