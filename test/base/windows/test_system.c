/* Tests files, threads, libraries and the environment on Windows. Tests of other systems use links
 * and signals, which Windows lacks. */
#include <cmocka.h>

#include "base/file.h"
#include "base/memory.h"
#include "base/number.h"
#include "base/process.h"
#include "base/threads.h"

static const char letters[] = "\xC3\xA4\xE6\x96\x87";
static char *folder;

static int make_folder(void **state) {
  (void)state;
  text stem = {0};
  text_printf(&stem, "clave-%s-", letters);
  folder = folder_create_unique(temporary_folder(), stem.data);
  text_free(&stem);
  return folder ? 0 : -1;
}

static int remove_folder(void **state) {
  (void)state;
  uint64_t bytes;
  const bool is_gone = folder_remove(folder, &bytes);
  free(folder);
  return is_gone ? 0 : -1;
}

static void write_text(const char *path, const char *text) {
  file_writer *writer;
  assert_null(file_writer_create(path, &writer));
  assert_null(file_writer_append(writer, text, strlen(text)));
  assert_null(file_writer_commit(writer));
  file_writer_destroy(writer);
}

static void expect_text(const char *path, const char *text) {
  file_map map;
  assert_null(file_map_open(path, &map));
  assert_int_equal(map.size, strlen(text));
  assert_memory_equal(map.data, text, map.size);
  file_map_close(&map);
}

/* Bytes stay unchanged, unlike in files that Windows opens as text, where line ends change. */
static void test_replace(void **state) {
  (void)state;
  char *path = path_join(folder, letters);
  write_text(path, "one\n\x1A");
  expect_text(path, "one\n\x1A");
  write_text(path, "two\r\n");
  expect_text(path, "two\r\n");
  folder_entry *entries;
  size_t n;
  assert_null(folder_list(folder, &entries, &n));
  assert_int_equal(n, 1); /* no temporary file is left */
  assert_string_equal(entries[0].name, letters);
  assert_int_equal(entries[0].size, 5);
  assert_true(entries[0].modified_s > 1700000000);
  folder_list_free(entries, n);
  assert_true(file_is_same(path, path));
  assert_false(file_is_same(path, folder));
  assert_true(file_remove(path));
  assert_false(file_exists(path));
  free(path);
}

static void test_uncommitted(void **state) {
  (void)state;
  char *path = path_join(folder, "kept");
  file_writer *writer;
  write_text(path, "before");
  assert_null(file_writer_create(path, &writer));
  assert_null(file_writer_append(writer, "after", 5));
  file_writer_destroy(writer);
  expect_text(path, "before");
  assert_true(file_remove(path));
  free(path);
}

/* A large file is mapped, and a change is noticed. */
static void test_map(void **state) {
  (void)state;
  enum { SIZE = 1 << 20 };
  char *path = path_join(folder, "large"), *bytes = malloc(SIZE + 1);
  memset(bytes, 'a', SIZE);
  bytes[SIZE] = '\0';
  write_text(path, bytes);
  file_map map;
  bool changed = true;
  assert_null(file_map_open(path, &map));
  assert_non_null(map.state);
  assert_int_equal(map.data[SIZE - 1], 'a');
  assert_null(file_map_check(&map, path, &changed));
  assert_false(changed);
  file_map_close(&map);
  assert_true(file_remove(path));
  free(bytes);
  free(path);
}

static void test_errors(void **state) {
  (void)state;
  file_map map;
  clave_status st = file_map_open("no/such/file", &map);
  assert_string_equal(status_message(st), "no/such/file: no such file or directory");
  status_free(st);
  st = file_map_open(folder, &map);
  assert_non_null(st);
  status_free(st);
}

static void test_lock(void **state) {
  (void)state;
  char *path = path_join(folder, "lock");
  file_lock *first, *second;
  assert_true(file_lock_take(path, 0, &first));
  assert_false(file_lock_take(path, 10, &second));
  file_lock_release(first);
  assert_true(file_lock_take(path, 0, &second));
  file_lock_release(second);
  assert_true(file_remove(path));
  free(path);
}

static void set_event(void *ctx) { wait_event_set(ctx, true); }

static void test_threads(void **state) {
  (void)state;
  wait_event *event;
  thread *thread;
  assert_null(wait_event_create(&event));
  assert_false(wait_event_wait(event, 20));
  assert_null(thread_create(set_event, event, &thread));
  assert_true(wait_event_wait(event, 20000));
  thread_join(thread);
  wait_event_destroy(event);
}

static void count_up(void *ctx, int64_t begin, int64_t end) {
  (void)__atomic_fetch_add((int64_t *)ctx, end - begin, __ATOMIC_SEQ_CST);
}

static void test_pool(void **state) {
  (void)state;
  thread_pool *pool;
  int64_t count = 0;
  assert_null(thread_pool_create(3, &pool));
  for (int i = 0; i < 100; i++) thread_pool_for(pool, 1000, 10, count_up, &count);
  thread_pool_destroy(pool);
  assert_int_equal(count, 100000);
}

static void test_environment(void **state) {
  (void)state;
  environment_set("CLAVE_TEST_LETTERS", letters);
  assert_string_equal(getenv("CLAVE_TEST_LETTERS"), letters);
  environment_set("CLAVE_TEST_LETTERS", NULL);
  assert_null(getenv("CLAVE_TEST_LETTERS"));
}

static void test_library(void **state) {
  (void)state;
  library *library;
  assert_null(library_open("kernel32.dll", &library));
  assert_non_null(library_symbol(library, "GetTickCount"));
  assert_null(library_symbol(library, "NoSuchFunction"));
  library_close(library);
  clave_status st = library_open("no_such_library.dll", &library);
  assert_int_equal(status_code_of(st), STATUS_UNSUPPORTED);
  status_free(st);
}

/* MinGW's replacement of printf supports %zu and %lld, which that of Windows does not. */
static void test_numbers(void **state) {
  (void)state;
  char out[64];
  number_print(out, sizeof out, "%zu %lld %.17g", (size_t)1 << 40, -5ll << 40, 0.1);
  assert_string_equal(out, "1099511627776 -5497558138880 0.10000000000000001");
  char *end;
  assert_true(number_read("1e23", &end) == 1e23);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_replace), cmocka_unit_test(test_uncommitted),
      cmocka_unit_test(test_map),     cmocka_unit_test(test_errors),
      cmocka_unit_test(test_lock),    cmocka_unit_test(test_threads),
      cmocka_unit_test(test_pool),    cmocka_unit_test(test_environment),
      cmocka_unit_test(test_library), cmocka_unit_test(test_numbers)};
  return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
