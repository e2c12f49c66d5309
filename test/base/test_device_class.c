/* Tests CLAVE_DEVICE_CLASS with each known word, several words, no word, and an unknown word. */
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/device_class.h"

static clave_status read_words(const char *words, device_class *out) {
  assert_int_equal(setenv("CLAVE_DEVICE_CLASS", words, 1), 0);
  return device_class_read(out);
}

static void test_words(void **state) {
  (void)state;
  device_class class;
  assert_null(read_words("", &class));
  assert_false(class.cpu || class.gpu || class.wide || class.avx2 || class.portable);
  assert_null(read_words("gpu,wide", &class));
  assert_true(class.gpu && class.wide && !class.cpu);
  assert_null(read_words("gpu,cpu,", &class));
  assert_true(class.cpu && !class.gpu);
  assert_null(read_words("avx2", &class));
  assert_true(class.avx2 && !class.portable);
  assert_null(read_words("portable", &class));
  assert_true(class.portable && !class.avx2);
  assert_int_equal(unsetenv("CLAVE_DEVICE_CLASS"), 0);
  assert_null(device_class_read(&class));
}

static void test_unknown_words(void **state) {
  (void)state;
  static const char *const bad[] = {"gpus", "gp", "wide,tall", ",gpu", "GPU", "cpu gpu"};
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    device_class class;
    clave_status st = read_words(bad[i], &class);
    assert_non_null(st);
    assert_non_null(
        strstr(status_message(st), "expected cpu, gpu, wide, slow, avx512, avx2 or portable"));
    status_free(st);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_words),
      cmocka_unit_test(test_unknown_words),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
