/* Tests rows rounded to 8 bits: integers and scales of some groups, and the error bound. */
#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/rounded.h"

static void test_integers(void **state) {
  (void)state;
  const float x[] = {254, -254, 1, 3, 5, -1, -3, 0, -0.0f, 2.1f};
  const int8_t want[] = {127, -127, 0, 2, 2, 0, -2, 0, 0, 1}; /* halves to even ones */
  enum { COUNT = sizeof want };
  int8_t q[COUNT];
  assert_true(rounded_group(x, COUNT, q) == 2.0f);
  assert_memory_equal(q, want, COUNT);
}

static void test_groups_that_have_no_scale(void **state) {
  (void)state;
  static const float bad[] = {NAN, INFINITY, -INFINITY};
  int8_t q[ROUNDED_GROUP];
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    float x[] = {1, -2, bad[i], 3};
    assert_true(isnan(rounded_group(x, 4, q)));
    for (int k = 0; k < 4; k++) assert_int_equal(q[k], 0);
  }
  const float tiny[] = {0, 126 * FLT_MIN, -FLT_MIN}, least[] = {127 * FLT_MIN, FLT_MIN};
  assert_true(rounded_group(tiny, 1, q) == 0);
  assert_true(rounded_group(tiny, 3, q) == 0 && q[1] == 0 && q[2] == 0);
  assert_true(rounded_group(least, 2, q) == FLT_MIN && q[0] == 127 && q[1] == 1);
  const float large[] = {FLT_MAX, -FLT_MAX};
  assert_true(isfinite(rounded_group(large, 2, q)) && q[0] == 127 && q[1] == -127);
}

/* Groups begin at a row's first element; the last group may be shorter. */
static void test_rows(void **state) {
  (void)state;
  enum { N = 1000 };
  float x[N], y[N];
  uint32_t seed = 1;
  for (int i = 0; i < N; i++) {
    seed = seed * 1664525 + 1013904223;
    x[i] = ldexpf((float)(int32_t)seed, -31 + (int)(i / ROUNDED_GROUP) % 40 - 20);
  }
  memcpy(y, x, sizeof y);
  rounded_row(y, N);
  for (int at = 0; at < N; at += ROUNDED_GROUP) {
    float largest = 0;
    int n = N - at < ROUNDED_GROUP ? N - at : ROUNDED_GROUP;
    for (int i = at; i < at + n; i++) largest = fmaxf(largest, fabsf(x[i]));
    for (int i = at; i < at + n; i++)
      assert_true(fabsf(y[i] - x[i]) <= largest / 254 * (1 + 1e-5f));
  }
  rounded_row(x, 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_integers),
      cmocka_unit_test(test_groups_that_have_no_scale),
      cmocka_unit_test(test_rows),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
