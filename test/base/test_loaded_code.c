/* Pages of a loaded library's code are released, and are read again when the code runs. */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/loaded_code.h"

/* Returns the KB of libcmocka's code that are in memory. This program uses the library. */
static long code_in_memory(void) {
  FILE *file = fopen("/proc/self/smaps", "r");
  char line[4096];
  long sum = 0, kb;
  bool is_code = false;
  if (!file) return -1;
  while (fgets(line, sizeof line, file)) {
    if (strchr(line, '-') && strchr(line, '/'))
      is_code = strstr(line, " r-xp ") && strstr(line, "/libcmocka");
    if (is_code && sscanf(line, "Rss: %ld kB", &kb) == 1) sum += kb;
  }
  fclose(file);
  return sum;
}

static void test_pages_go(void **state) {
  (void)state;
  long before = code_in_memory();
  if (before < 0) skip(); /* another system */
  assert_true(before > 0);
  release_code("libcmocka-of-others cmocka");
  release_code("");
  long others = code_in_memory();
  release_code("libother libcmocka");
  long after = code_in_memory();
  assert_true(others == before);
  assert_true(after < before && after <= 4);
}

/* Code that a debugger or another tool may have patched is not released. */
static void test_patched_code_stays(void **state) {
  const size_t page = (size_t)sysconf(_SC_PAGESIZE);
  volatile unsigned char *code = (unsigned char *)(uintptr_t)&_will_return; /* no test calls it */
  void *begin = (void *)((uintptr_t)code / page * page);
  (void)state;
  if (mprotect(begin, page, PROT_READ | PROT_WRITE | PROT_EXEC)) skip(); /* code is never written */
  const unsigned char was = *code, patched = was ^ 1;
  *code = patched;
  assert_int_equal(mprotect(begin, page, PROT_READ | PROT_EXEC), 0);
  release_code("libcmocka");
  assert_int_equal(*code, patched);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_pages_go),
                                     cmocka_unit_test(test_patched_code_stays)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
