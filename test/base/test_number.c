/* Tests numbers as text, and the floating-point environment, in hosts with other locales, rounding
 * modes and traps. */
#include "base/number.h"

#include <cmocka.h>
#include <fenv.h>
#include <locale.h>
#include <stdlib.h>
#include <string.h>

#include "base/ascii.h"
#include "base/float_env.h"
#include "base/memory.h"
#include "base/threads.h"

static void expect_printed(const char *want, const char *format, double d) {
  char out[64];
  text text = {0};
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
  (void)number_print(out, sizeof out, format, d);
  text_printf(&text, format, d);
#pragma GCC diagnostic pop
  assert_string_equal(out, want);
  assert_string_equal(text.data, want);
  text_free(&text);
}

static void expect_numbers(void) {
  char *end;
  const char with_comma[] = "1,5";
  expect_printed("1.5", "%.1f", 1.5);
  expect_printed("0.3", "%.1f", 0.25000001);
  expect_printed("0.2", "%.1f", 0.25); /* ties to even */
  expect_printed("-0.1", "%.1f", -0.14);
  expect_printed("1234567.5", "%.9g", 1234567.5);
  assert_true(number_read("2.5", &end) == 2.5);
  assert_int_equal(*end, 0);
  assert_true(number_read(with_comma, &end) == 1);
  assert_ptr_equal(end, with_comma + 1);
  assert_true(number_read("0.1", NULL) == 0.1);
  assert_true(number_read("-0.1", NULL) == -0.1);
}

static void test_rounding(void **state) {
  (void)state;
  static const int modes[] = {FE_TONEAREST, FE_UPWARD, FE_DOWNWARD, FE_TOWARDZERO};
  for (size_t i = 0; i < sizeof modes / sizeof *modes; i++) {
    assert_int_equal(fesetround(modes[i]), 0);
    expect_numbers();
    assert_int_equal(fegetround(), modes[i]);
    (void)fesetround(FE_TONEAREST);
  }
}

/* The runner sets LOCPATH to a folder with these locales, if localedef could make it. */
static void test_locales(void **state) {
  (void)state;
  static const char *const names[] = {"C", "de_DE.UTF-8", "de_CH.UTF-8", "tr_TR.UTF-8",
                                      "fa_IR.UTF-8"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    if (!setlocale(LC_ALL, names[i])) continue;
    expect_numbers();
    assert_string_equal(setlocale(LC_NUMERIC, NULL), names[i]);
  }
  (void)setlocale(LC_ALL, "C");
}

static void see_mode(void *ctx) {
  int *mode = ctx;
  *mode = fegetround();
}

static void see_modes(void *ctx, int64_t begin, int64_t end) {
  int *modes = ctx;
  for (int64_t i = begin; i < end; i++) modes[i] = fegetround();
}

static void test_threads_do_not_inherit(void **state) {
  (void)state;
  enum { N = 64 };
  thread *thread;
  thread_pool *pool;
  int mode, modes[N];
  (void)fesetround(FE_UPWARD);
  assert_null(thread_create(see_mode, &mode, &thread));
  thread_join(thread);
  assert_null(thread_pool_create(4, &pool));
  (void)fesetround(FE_TONEAREST);
  thread_pool_for(pool, N, 1, see_modes, modes);
  thread_pool_destroy(pool);
  assert_int_equal(mode, FE_TONEAREST);
  for (int i = 0; i < N; i++) assert_int_equal(modes[i], FE_TONEAREST);
}

static void test_environment_is_restored(void **state) {
  (void)state;
  const int trapped = feenableexcept(FE_DIVBYZERO) < 0 ? 0 : FE_DIVBYZERO; /* ARM may not trap */
  (void)fesetround(FE_DOWNWARD);
  {
    OWN_FLOAT_ENV;
    volatile double zero = 0;
    assert_int_equal(fegetround(), FE_TONEAREST);
    zero = 1 / zero; /* no trap */
  }
  assert_int_equal(fegetround(), FE_DOWNWARD);
  assert_int_equal(fegetexcept(), trapped);
  (void)fesetenv(FE_DFL_ENV);
}

static void test_ascii(void **state) {
  (void)state;
  assert_true(equal_ascii("INFINITY", "infinity"));
  assert_false(equal_ascii("inf", "infinity"));
  assert_true(equal_ascii("", ""));
  for (int i = -128; i < 128; i++) {
    const char c = (char)i;
    const bool upper = i >= 'A' && i <= 'Z', lower = i >= 'a' && i <= 'z';
    assert_int_equal(is_ascii_upper(c), upper);
    assert_int_equal(is_ascii_letter(c), upper || lower);
    assert_int_equal(is_ascii_digit(c), i >= '0' && i <= '9');
    assert_int_equal(ascii_lower(c), (char)(upper ? i + 32 : i));
    assert_int_equal(ascii_upper(c), (char)(lower ? i - 32 : i));
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_rounding), cmocka_unit_test(test_locales),
      cmocka_unit_test(test_threads_do_not_inherit), cmocka_unit_test(test_environment_is_restored),
      cmocka_unit_test(test_ascii)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
