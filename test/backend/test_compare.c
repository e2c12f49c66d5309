/* Tests the comparison of computed floats: right results pass, wrong results fail. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "base/dtype.h"
#include "compare.h"

enum { N = 400 };

static const tolerance of_f32 = {.rtol = 1e-6};

static double nearest(double x) { return f16_to_f32(f32_to_f16((float)x)); }

/* Returns number i of a sequence in [-2, 2) that f16 cannot represent. */
static double number(int i) { return 4 * fmod(i * 0.6180339887, 1) - 2; }

static const char *fault(double (*f)(int), double (*want)(int), int n, tolerance tolerance) {
  double a[N], b[N];
  for (int i = 0; i < n; i++) {
    a[i] = f(i);
    b[i] = want(i);
  }
  comparison comparison = compare_floats(a, b, (size_t)n, format_f16, tolerance);
  return comparison_fault(&comparison, format_f16, tolerance);
}

static double right(int i) { return nearest(number(i)); }
static double almost(int i) { return nearest(number(i) * (1 + 1e-7)); }
static double twice_rounded(int i) { return nearest(nearest(number(i) * 1.7) * 0.3); }
static double once_rounded(int i) { return nearest(number(i) * 1.7 * 0.3); }
static double odd(int i) { return i == 1 ? (double)NAN : i == 2 ? (double)INFINITY : right(i); }
static double one_off(int i) { return right(i) + (i == 7 ? 3 * ldexp(1, -10) : 0); }
static double truncated(int i) {
  double x = number(i), unit = unit_in_last_place(x, format_f16);
  return trunc(x / unit) * unit;
}
static double lowered(int i) {
  double x = number(i), unit = unit_in_last_place(x, format_f16);
  return floor(x / unit) * unit;
}

static void test_right_answers_pass(void **state) {
  (void)state;
  const tolerance exact = {0}, step = {.rtol = 1e-6, .steps = 1};
  assert_null(fault(right, right, N, exact));
  assert_null(fault(odd, odd, N, exact));
  assert_null(fault(almost, right, N, of_f32));
  assert_null(fault(once_rounded, twice_rounded, N, step));
  assert_null(fault(right, right, 0, of_f32));
}

static void test_wrong_answers_do_not(void **state) {
  (void)state;
  const tolerance exact = {0};
  tolerance steps = {.rtol = 1e-6, .steps = 2};
  assert_string_equal(fault(lowered, right, N, exact), "beyond the allowance");
  assert_string_equal(fault(one_off, right, N, of_f32), "beyond the allowance");
  assert_string_equal(fault(odd, right, N, of_f32), "beyond the allowance");
  assert_string_equal(fault(right, odd, N, of_f32), "beyond the allowance");
  assert_string_equal(fault(truncated, right, N, of_f32), "errors with a bias");
  assert_string_equal(fault(truncated, right, N, steps), "errors with a bias");
  assert_string_equal(fault(lowered, right, 100, of_f32), "errors with a bias");
  assert_string_equal(fault(once_rounded, twice_rounded, N, of_f32),
                      "too many elements are not the nearest");
}

static void test_units(void **state) {
  (void)state;
  assert_true(unit_in_last_place(1, format_f16) == ldexp(1, -10));
  assert_true(unit_in_last_place(-1.99, format_f16) == ldexp(1, -10));
  assert_true(unit_in_last_place(2, format_bf16) == ldexp(1, -6));
  assert_true(unit_in_last_place(0, format_f16) == ldexp(1, -24));
  assert_true(unit_in_last_place(1e-6, format_f16) == ldexp(1, -24));
}

static void test_sabotage_is_noticed(void **state) {
  (void)state;
  double tiny[3] = {1e-5, -1e-5, 2e-5}, zeros[2] = {0, -0.0}, some[2] = {0.5, NAN};
  const tolerance wide = {.atol = 3e-5}, some_wide = {.atol = 0.02}, narrow = {.rtol = 1e-6};
  assert_int_equal(accepted_sabotage(tiny, 3, format_f32, wide), SABOTAGE_ZEROS);
  assert_int_equal(accepted_sabotage(some, 2, format_f32, some_wide), SABOTAGE_LARGER);
  assert_int_equal(accepted_sabotage(some, 2, format_f32, narrow), N_SABOTAGES);
  assert_int_equal(accepted_sabotage(tiny, 3, format_f32, narrow), N_SABOTAGES);
  assert_int_equal(accepted_sabotage(zeros, 2, format_f32, wide), N_SABOTAGES);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_right_answers_pass),
      cmocka_unit_test(test_wrong_answers_do_not),
      cmocka_unit_test(test_units),
      cmocka_unit_test(test_sabotage_is_noticed),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
