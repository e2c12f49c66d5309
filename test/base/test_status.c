/* Messages have one line, even if inserted text has several. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/status.h"

static void test_message_grows(void **state) {
  (void)state;
  clave_status st = INVALID("axis %d out of range for rank %d", 5, 2);
  st = status_while(st, "node %d (%s)", 3, "softmax");
  assert_string_equal(status_message(st), "axis 5 out of range for rank 2; node 3 (softmax)");
  assert_int_equal(status_code_of(st), STATUS_INVALID);
  status_free(st);
  assert_null(status_while(NULL, "nothing"));
  assert_int_equal(status_code_of(NULL), STATUS_OK);
  assert_string_equal(status_message(NULL), "");
  status_free(NULL);
}

static void test_escapes(void **state) {
  (void)state;
  clave_status st = INVALID("a%sb", "\n\t\x7f\xff\xc2\x85\xc3\xa9\xed\xa0\x80");
  assert_string_equal(status_message(st),
                      "a\\x0a\\x09\\x7f\\xff\\xc2\\x85\xc3\xa9\\xed\\xa0\\x80"
                      "b");
  status_free(st);
}

static void test_long_pieces_are_cut(void **state) {
  (void)state;
  char name[10000];
  memset(name, 'x', sizeof name);
  name[sizeof name - 1] = '\0';
  clave_status st = INVALID("%s", name);
  size_t n = strlen(status_message(st));
  assert_in_range(n, 1000, 3000);
  assert_string_equal(status_message(st) + n - 3, "...");
  status_free(st);
}

static void test_no_memory(void **state) {
  (void)state;
  clave_status st = status_while(status_no_memory(), "loading");
  assert_int_equal(status_code_of(st), STATUS_NO_MEMORY);
  assert_string_equal(status_message(st), "out of memory");
  status_free(st);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_message_grows),
      cmocka_unit_test(test_escapes),
      cmocka_unit_test(test_long_pieces_are_cut),
      cmocka_unit_test(test_no_memory),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
