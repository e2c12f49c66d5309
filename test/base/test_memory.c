/* Tests device memory: blocks are aligned and writable; impossible sizes return NULL. */
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/memory.h"

static void test_sizes(void **state) {
  (void)state;
  static const size_t sizes[] = {0,        1, 63, 64, 65, (8u << 20) - 1, 8u << 20, (9u << 20) + 5,
                                 10u << 20};
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    unsigned char *at = memory_alloc(sizes[i]);
    assert_non_null(at);
    assert_int_equal((uintptr_t)at % MEMORY_ALIGNMENT, 0);
    memset(at, 7, sizes[i]);
    assert_true(sizes[i] == 0 || at[sizes[i] - 1] == 7);
    memory_free(at);
  }
}

static void test_too_large(void **state) {
  (void)state;
  assert_null(memory_alloc(SIZE_MAX));
  assert_null(memory_alloc(SIZE_MAX - (4u << 20)));
  assert_null(memory_alloc(SIZE_MAX / 2));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_sizes),
      cmocka_unit_test(test_too_large),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
