/* Compares SHA-256 with the examples of the standard, in pieces of all sizes. */
#include "base/sha256.h"

#include <cmocka.h>
#include <string.h>

static void expect(const char *text, size_t n, size_t piece, const char *want) {
  sha256 sha256;
  char hex[SHA256_TEXT];
  sha256_begin(&sha256);
  for (size_t at = 0; at < n; at += piece)
    sha256_add(&sha256, text + at, n - at < piece ? n - at : piece);
  sha256_end(&sha256, hex);
  assert_string_equal(hex, want);
}

static void test_examples(void **state) {
  (void)state;
  expect("", 0, 1, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  expect("abc", 3, 3, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  const char *two = "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq";
  for (size_t piece = 1; piece <= 57; piece += 7)
    expect(two, 56, piece, "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
}

/* Tests messages whose padding needs an additional block, and messages whose padding does not. */
static void test_ends_of_blocks(void **state) {
  (void)state;
  static const struct {
    size_t n;
    const char *want;
  } rows[] = {{55, "9f4390f8d30c2dd92ec9f095b65e2b9ae9b0a925a5258e241c9f1e910f734318"},
              {56, "b35439a4ac6f0948b6d6f9e3c6af0f5f590ce20f1bde7090ef7970686ec6738a"},
              {64, "ffe054fe7ae0cb6dc65c3af9b61d5209f439851db43d0ba5997337df154668eb"},
              {119, "31eba51c313a5c08226adf18d4a359cfdfd8d2e816b13f4af952f7ea6584dcfb"}};
  char text[128];
  memset(text, 'a', sizeof text);
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
    expect(text, rows[i].n, rows[i].n, rows[i].want);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_examples),
                                     cmocka_unit_test(test_ends_of_blocks)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
