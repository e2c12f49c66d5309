/* Tests files that are truncated while a host reads them in its own mapping, or as tensors. */
#include <cmocka.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "clave_files.h"
#include "clave_host.h"
#include "expect.h"

enum { FLOATS = 1 << 17, SHORT = 100000 };

static char path[64];
static float values[FLOATS];

static int set_up(void **state) {
  (void)state;
  (void)snprintf(path, sizeof path, "/tmp/clave_guard_%ld.safetensors", (long)getpid());
  for (int i = 0; i < FLOATS; i++) values[i] = 1;
  return 0;
}

static int remove_file(void **state) {
  (void)state;
  return unlink(path);
}

static void save(void) {
  const int64_t dims[] = {FLOATS};
  const char *names[] = {"x"};
  const clave_tensor tensor = clave_tensor_make(CLAVE_F32, 1, dims, values);
  good(clave_tensors_save(path, names, &tensor, 1, NULL, 0));
}

static void test_tensors(void **state) {
  (void)state;
  clave_tensors *file, *whole;
  clave_tensor tensor;
  save();
  good(clave_tensors_load(path, &whole));
  assert_int_equal(unlink(path), 0); /* it stays as it is */
  save();
  good(clave_tensors_load(path, &file));
  assert_true(clave_tensors_find(file, "x", &tensor));
  good(clave_tensors_check(file));
  assert_int_equal(truncate(path, SHORT), 0);
  assert_true(((float *)tensor.data)[0] == 1);
  assert_true(((float *)tensor.data)[FLOATS - 1] == 0);
  for (int again = 0; again < 2; again++) {
    clave_status st = clave_tensors_check(file);
    assert_int_equal(clave_status_code(st), CLAVE_IO);
    assert_non_null(strstr(clave_status_message(st), path));
    assert_non_null(strstr(clave_status_message(st), "the file was cut short"));
    clave_status_free(st);
  }
  good(clave_tensors_check(whole));
  clave_tensors_destroy(file);
  clave_tensors_destroy(whole);
}

static void test_mappings_of_the_host(void **state) {
  (void)state;
  clave_guard *guard;
  bool is_cut = false;
  save();
  const int fd = open(path, O_RDONLY);
  const size_t size = FLOATS * sizeof(float);
  char *pages = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
  assert_true(pages != MAP_FAILED);
  good(clave_guard_create(pages, size, &is_cut, &guard));
  assert_int_equal(pages[size - 1], 63); /* the last byte of 1.0 */
  assert_false(is_cut);
  assert_int_equal(truncate(path, SHORT), 0);
  assert_int_equal(pages[size - 1], 0);
  assert_true(is_cut);
  pages[size - 1] = 1; /* a mapping of its own, which the host may write */
  assert_int_equal(pages[size - 1], 1);
  clave_guard_destroy(guard);
  assert_int_equal(munmap(pages, size), 0);
  assert_int_equal(close(fd), 0);
}

static void test_wrong_mappings(void **state) {
  (void)state;
  static _Alignas(4096) char pages[4096];
  clave_guard *guard = (clave_guard *)pages;
  bool is_cut;
  const struct {
    const void *pages;
    size_t size;
  } wrong[] = {{NULL, 4096}, {pages + 1, 4000}, {pages, 0}};
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
    expect_invalid(clave_guard_create(wrong[i].pages, wrong[i].size, &is_cut, &guard),
                   "expected a mapping that starts at a page boundary");
    assert_null(guard);
  }
  clave_guard_destroy(NULL);
}

static void test_too_many(void **state) {
  (void)state;
  enum { MOST = 256 };
  static clave_guard *guards[MOST + 1];
  char *pages = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  assert_true(pages != MAP_FAILED);
  bool is_cut;
  for (int i = 0; i < MOST; i++) good(clave_guard_create(pages, 4096, &is_cut, &guards[i]));
  clave_status st = clave_guard_create(pages, 4096, &is_cut, &guards[MOST]);
  assert_int_equal(clave_status_code(st), CLAVE_NO_MEMORY);
  clave_status_free(st);
  assert_null(guards[MOST]);
  for (int i = 0; i < MOST; i++) clave_guard_destroy(guards[i]);
  assert_int_equal(munmap(pages, 4096), 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_tensors),
      cmocka_unit_test(test_mappings_of_the_host),
      cmocka_unit_test(test_wrong_mappings),
      cmocka_unit_test(test_too_many),
  };
  return cmocka_run_group_tests(tests, set_up, remove_file);
}
