/* Structs of older and newer callers. */
#include <cmocka.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/sized.h"

/* The first version ended with `a`, then `b` was added. A later version adds `c`. */
typedef struct known {
  size_t size;
  int64_t a, b;
} known;
typedef struct older {
  size_t size;
  int64_t a;
} older;
typedef struct newer {
  size_t size;
  int64_t a, b, c;
} newer;

static const sized_type *type(void) {
  static const sized_type type = {"known", sizeof(known), sizeof(older)};
  return &type;
}

static void expect_size_error(clave_status st, const char *message) {
  assert_int_equal(status_code_of(st), STATUS_INVALID);
  assert_string_equal(status_message(st), message);
  status_free(st);
}

static void test_read(void **state) {
  (void)state;
  known own = {1, 2, 3};
  assert_null(sized_read(NULL, &own, type()));
  assert_true(own.size == sizeof own && own.a == 0 && own.b == 0);
  assert_null(sized_read(&(older){sizeof(older), 5}, &own, type()));
  assert_true(own.size == sizeof own && own.a == 5 && own.b == 0);
  assert_null(sized_read(&(newer){sizeof(newer), 6, 7, 8}, &own, type()));
  assert_true(own.size == sizeof own && own.a == 6 && own.b == 7);
}

static void test_write(void **state) {
  (void)state;
  const known own = {0, 5, 6};
  struct {
    older info;
    int64_t beyond;
  } small = {{sizeof(older), 1}, 2};
  newer large = {sizeof(newer), 1, 2, 3};
  assert_null(sized_write(&own, &small, type()));
  assert_true(small.info.size == sizeof(older) && small.info.a == 5 && small.beyond == 2);
  assert_null(sized_write(&own, &large, type()));
  assert_true(large.size == sizeof large && large.a == 5 && large.b == 6 && large.c == 3);
}

static void test_too_small(void **state) {
  (void)state;
  known own = {sizeof own, 1, 2};
  expect_size_error(sized_read(&(older){0, 5}, &own, type()),
                    "known: size: expected sizeof(known), 16 or more, got 0");
  older small = {sizeof small - 1, 9};
  expect_size_error(sized_write(&(known){0, 5, 6}, &small, type()),
                    "known: size: expected sizeof(known), 16 or more, got 15");
  assert_int_equal(small.a, 9);
}

static void test_first_version(void **state) {
  (void)state;
  const sized_type *type = SIZED(known, a);
  assert_string_equal(type->name, "known");
  assert_true(type->size == sizeof(known) && type->first == offsetof(known, b));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_read),
      cmocka_unit_test(test_write),
      cmocka_unit_test(test_too_small),
      cmocka_unit_test(test_first_version),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
