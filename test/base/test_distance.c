/* Tests distances between numbers, and the median magnitude of many numbers. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/distance.h"

static void test_distances(void **state) {
  (void)state;
  const struct {
    double a, b, apart;
  } rows[] = {{2, 2.5, 0.5},
              {-1, 1, 2},
              {0, -0.0, 0},
              {(double)NAN, (double)NAN, 0},
              {(double)INFINITY, (double)INFINITY, 0},
              {(double)INFINITY, -(double)INFINITY, (double)INFINITY},
              {(double)INFINITY, 1, (double)INFINITY},
              {1, (double)NAN, (double)INFINITY}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    assert_true(number_distance(rows[i].a, rows[i].b) == rows[i].apart);
    assert_true(number_distance(rows[i].b, rows[i].a) == rows[i].apart);
    assert_true(number_is_close(rows[i].a, rows[i].b, 1, 1) == (rows[i].apart <= 2));
  }
  assert_true(number_is_close(110, 100, 0.1, 0));
  assert_true(number_is_close(111, 100, 0.1, 1));
  assert_false(number_is_close(112, 100, 0.1, 1));
}

/* The median of a large tensor is estimated from evenly spaced elements. */
static void test_median(void **state) {
  (void)state;
  float few[] = {0, -3, (float)INFINITY, 1, (float)NAN, 2}, many[5000];
  for (int i = 0; i < 5000; i++) many[i] = (float)i;
  assert_true(median_magnitude(DTYPE_F32, few, 6) == 2);
  assert_true(median_magnitude(DTYPE_F32, few, 1) == 0);
  assert_true(median_magnitude(DTYPE_F32, few, 0) == 0);
  assert_in_range((int)median_magnitude(DTYPE_F32, many, 5000), 2490, 2510);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_distances),
                                     cmocka_unit_test(test_median)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
