/* Tests the allocation of small objects from a buffer, which programs with static memory use. */
#define MEMORY_STATIC 1024
#define small_alloc static_take
#define small_realloc static_resize
#define small_free static_give
#include "base/small_alloc.c"

#include <cmocka.h>
#include <stdint.h>

static int is_zero(const char *at, size_t n) {
  for (size_t i = 0; i < n; i++)
    if (at[i]) return 0;
  return 1;
}

static void test_the_last_is_given_back(void **state) {
  (void)state;
  const size_t before = used;
  char *first = static_take(10), *last = static_take(20);
  assert_true(first && last && last >= first + 10 && (uintptr_t)last % UNIT == 0);
  memset(last, 1, 20);
  static_give(last);
  char *again = static_take(5);
  assert_ptr_equal(again, last);
  assert_true(is_zero(again, 5));
  static_give(again);
  static_give(first);
  assert_int_equal(used, before);
  static_give(NULL);
}

static void test_resizing(void **state) {
  (void)state;
  char *grown = static_resize(NULL, 4);
  memcpy(grown, "abc", 4);
  assert_ptr_equal(static_resize(grown, 100), grown);
  char *after = static_take(1);
  char *moved = static_resize(grown, 200);
  assert_true(moved > after);
  assert_string_equal(moved, "abc");
  static_give(moved);
  static_give(after);
}

static void test_the_end(void **state) {
  (void)state;
  used = 0;
  assert_null(static_take(1024));
  assert_null(static_take(SIZE_MAX));
  char *all = static_take(1024 - UNIT);
  assert_non_null(all);
  assert_null(static_take(0));
  assert_null(static_resize(all, 1025 - UNIT));
  static_give(all);
  assert_int_equal(used, 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_the_last_is_given_back),
                                     cmocka_unit_test(test_resizing),
                                     cmocka_unit_test(test_the_end)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
