/* Code points as UTF-8 and back: the first and the last of each length, and ill-formed bytes. */
#include "base/utf8.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static const struct {
  uint32_t c;
  const char *bytes;
} characters[] = {
    {0x01, "\x01"},
    {0x7F, "\x7F"},
    {0x80, "\xC2\x80"},
    {0x7FF, "\xDF\xBF"},
    {0x800, "\xE0\xA0\x80"},
    {0xD7FF, "\xED\x9F\xBF"},
    {0xE000, "\xEE\x80\x80"},
    {0xFFFF, "\xEF\xBF\xBF"},
    {0x10000, "\xF0\x90\x80\x80"},
    {0x10FFFF, "\xF4\x8F\xBF\xBF"},
};

static void test_characters(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof characters / sizeof *characters; i++) {
    const char *bytes = characters[i].bytes;
    const size_t size = strlen(bytes);
    char written[4];
    uint32_t c;
    assert_int_equal(utf8_size(characters[i].c), size);
    assert_int_equal(utf8_write(characters[i].c, written), size);
    assert_memory_equal(written, bytes, size);
    assert_int_equal(utf8_read(bytes, &c), size);
    assert_int_equal(c, characters[i].c);
    assert_int_equal(utf8_sequence(bytes, size), size);
    assert_int_equal(utf8_sequence(bytes, size - 1), 0);
  }
}

static void test_ill_formed(void **state) {
  (void)state;
  static const char *const bad[] = {"\x80",
                                    "\xC1\xBF",
                                    "\xE0\x9F\xBF",
                                    "\xED\xA0\x80",
                                    "\xF0\x8F\xBF\xBF",
                                    "\xF4\x90\x80\x80",
                                    "\xF5\x80\x80\x80",
                                    "\xC2\x41",
                                    "\xFF"};
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    assert_int_equal(utf8_sequence(bad[i], strlen(bad[i])), 0);
    assert_false(utf8_valid(bad[i], strlen(bad[i])));
  }
  assert_true(utf8_valid("a\xC3\xA9\xF0\x9F\x98\x80", 7));
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_characters),
                                     cmocka_unit_test(test_ill_formed)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
