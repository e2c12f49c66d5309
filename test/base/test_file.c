/* Tests atomic writes of files, pools, text and hashes. */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/file.h"
#include "base/hash.h"
#include "base/memory.h"

static char folder[] = "/tmp/clave_test_XXXXXX";

static int set_up(void **state) {
  (void)state;
  return mkdtemp(folder) ? 0 : 1;
}

static int tear_down(void **state) {
  (void)state;
  return rmdir(folder);
}

static size_t count_files(void) {
  folder_entry *entries;
  size_t n;
  assert_null(folder_list(folder, &entries, &n));
  folder_list_free(entries, n);
  return n;
}

static void expect_error(clave_status st, const char *text) {
  assert_non_null(st);
  if (!strstr(status_message(st), text))
    fail_msg("'%s' does not say '%s'", status_message(st), text);
  status_free(st);
}

static void test_write_and_map(void **state) {
  (void)state;
  char *path = path_join(folder, "a.bin");
  file_writer *writer;
  assert_null(file_writer_create(path, &writer));
  assert_null(file_writer_append(writer, "abc", 3));
  assert_null(file_writer_pad(writer, 4096));
  assert_int_equal(file_writer_size(writer), 4096);
  static char big[300000];
  memset(big, 'x', sizeof big);
  assert_null(file_writer_append(writer, big, sizeof big));
  assert_int_equal(access(path, F_OK), -1);
  assert_null(file_writer_commit(writer));
  file_writer_destroy(writer);
  assert_int_equal(count_files(), 1);

  file_map map;
  assert_null(file_map_open(path, &map));
  assert_int_equal(map.size, 4096 + sizeof big);
  assert_memory_equal(map.data, "abc\0", 4);
  assert_memory_equal(map.data + 4096, big, sizeof big);
  file_map_release(&map, 10, 290000);
  assert_memory_equal(map.data + 4096, big, sizeof big);
  file_map_close(&map);
  file_map_close(&map);
  assert_true(file_remove(path));
  assert_false(file_remove(path));
  free(path);
}

static void test_abandoned_writer_leaves_nothing(void **state) {
  (void)state;
  char *path = path_join(folder, "b.bin");
  file_writer *writer;
  assert_null(file_writer_create(path, &writer));
  assert_null(file_writer_append(writer, "abc", 3));
  file_writer_destroy(writer);
  assert_int_equal(count_files(), 0);
  free(path);
}

static void test_errors_name_the_path(void **state) {
  (void)state;
  file_map map;
  file_writer *writer;
  expect_error(file_map_open("/nonexistent/x", &map), "/nonexistent/x: no such file or directory");
  expect_error(file_map_open(folder, &map), "expected a file, got a folder");
  expect_error(file_map_open("/dev/null", &map), "expected a regular file");
  expect_error(file_writer_create("/nonexistent/x", &writer),
               "/nonexistent/x: no such file or directory");
  expect_error(file_writer_create(folder, &writer), "expected a file, got a folder");
  assert_null(writer);
  assert_null(file_writer_create("/dev/full", &writer));
  assert_null(file_writer_append(writer, "x", 1));
  expect_error(file_writer_commit(writer), "/dev/full: no space left on device");
  file_writer_destroy(writer);
}

static void test_empty_file_and_link(void **state) {
  (void)state;
  char *path = path_join(folder, "empty"), *link = path_join(folder, "link");
  assert_int_equal(symlink(path, link), 0);
  int fd = open(path, O_CREAT | O_WRONLY, 0600);
  assert_true(fd >= 0);
  (void)close(fd);
  file_map map;
  assert_null(file_map_open(path, &map));
  assert_null(map.data);
  file_writer *writer;
  assert_null(file_writer_create(link, &writer));
  assert_null(file_writer_append(writer, "through", 7));
  assert_null(file_writer_commit(writer));
  file_writer_destroy(writer);
  assert_null(file_map_open(path, &map));
  assert_int_equal(map.size, 7);
  file_map_close(&map);
  struct stat s;
  assert_int_equal(lstat(link, &s), 0);
  assert_true(S_ISLNK(s.st_mode));
  (void)unlink(link);
  (void)unlink(path);
  free(path);
  free(link);
}

static void test_folders_and_locks(void **state) {
  (void)state;
  char *deep = path_join(folder, "x/y/z"), *lock_path = path_join(deep, "lock");
  assert_null(make_folders(deep, FOLDERS_PRIVATE));
  assert_null(make_folders(deep, FOLDERS_PRIVATE));
  assert_true(folder_is_private(deep));
  (void)chmod(deep, 0777);
  assert_false(folder_is_private(deep));
  file_lock *lock, *second;
  assert_true(file_lock_take(lock_path, 0, &lock));
  assert_false(file_lock_take(lock_path, 20, &second));
  assert_true(file_lock_is_held(lock_path));
  file_lock_release(lock);
  assert_false(file_lock_is_held(lock_path));
  assert_true(file_lock_take(lock_path, 0, &second));
  file_lock_release(second);
  expect_error(make_folders(lock_path, FOLDERS_SHARED), "expected a folder");
  char *shared = path_join(folder, "shared");
  const mode_t mask = umask(022);
  struct stat s;
  assert_null(make_folders(shared, FOLDERS_SHARED));
  assert_int_equal(stat(shared, &s), 0);
  assert_int_equal(s.st_mode & 0777, 0755);
  (void)umask(mask);
  (void)rmdir(shared);
  free(shared);
  (void)unlink(lock_path);
  const char *const made[] = {"x/y/z", "x/y", "x"};
  for (int i = 0; i < 3; i++) {
    char *at = path_join(folder, made[i]);
    (void)rmdir(at);
    free(at);
  }
  folder_entry *entries;
  size_t n;
  assert_null(folder_list("/nonexistent", &entries, &n));
  assert_int_equal(n, 0);
  free(deep);
  free(lock_path);
}

static void test_library(void **state) {
  (void)state;
  library *library;
  assert_null(library_open("libm.so.6", &library));
  assert_non_null(library_symbol(library, "cos"));
  assert_null(library_symbol(library, "no_such_symbol"));
  assert_true(library_stamp(library_symbol(library, "cos")) != 0);
  assert_true(library_stamp(&library) == 0);
  library_close(library);
  expect_error(library_open("libno_such_thing.so.9", &library), "libno_such_thing.so.9");
}

static void test_pool(void **state) {
  (void)state;
  mem_pool *pool;
  assert_null(mem_pool_create(&pool));
  for (size_t n = 0; n < 300; n++) {
    unsigned char *left = mem_pool_alloc(pool, n, 7);
    assert_non_null(left);
    assert_int_equal((uintptr_t)left % _Alignof(max_align_t), 0);
    for (size_t i = 0; i < n * 7; i++) assert_int_equal(left[i], 0);
    memset(left, 0xAA, n * 7);
  }
  assert_non_null(mem_pool_alloc(pool, 1, 1 << 20));
  assert_null(mem_pool_alloc(pool, SIZE_MAX / 2, 3));
  assert_null(mem_pool_alloc(pool, SIZE_MAX, 1));
  assert_string_equal(mem_pool_strdup(pool, "abcdef", 3), "abc");
  assert_true(mem_pool_bytes(pool) > (1 << 20));
  mem_pool_destroy(pool);
  mem_pool_destroy(NULL);
}

static void test_array(void **state) {
  (void)state;
  uint16_t *items = NULL;
  size_t capacity = 0, moves = 0;
  assert_true(array_reserve(&items, &capacity, 0, sizeof *items));
  for (size_t n = 0; n < 1000; n++) {
    size_t had = capacity;
    assert_true(array_reserve(&items, &capacity, n + 1, sizeof *items));
    assert_true(capacity > n);
    moves += capacity != had;
    items[n] = (uint16_t)n;
  }
  assert_in_range(moves, 2, 10); /* doubling */
  for (size_t n = 0; n < 1000; n++) assert_int_equal(items[n], n);
  uint16_t *before = items;
  size_t had = capacity;
  assert_false(array_reserve(&items, &capacity, SIZE_MAX / 2 + 2, sizeof *items));
  assert_false(array_reserve(&items, &capacity, SIZE_MAX / 4, sizeof *items));
  assert_ptr_equal(items, before);
  assert_int_equal(capacity, had);
  assert_true(array_reserve(&items, &capacity, 5000, sizeof *items));
  assert_int_equal(capacity, 5000);
  free(items);
}

static void test_text(void **state) {
  (void)state;
  text text = {0};
  for (int i = 0; i < 1000; i++) text_printf(&text, "%d,", i % 10);
  text_append(&text, "end", 3);
  assert_null(text_status(&text));
  assert_int_equal(text.size, 2003);
  assert_string_equal(text.data + 2000, "end");
  text_free(&text);
  text_append(&text, "x", SIZE_MAX);
  assert_non_null(text_status(&text));
  text_free(&text);
}

static void test_hash(void **state) {
  (void)state;
  char bytes[5000];
  for (size_t i = 0; i < sizeof bytes; i++) bytes[i] = (char)(i * 7);
  hash_state *hash = hash_create();
  assert_non_null(hash);
  hash_update(hash, bytes, 1234);
  hash_update(hash, bytes + 1234, sizeof bytes - 1234);
  assert_true(hash_value(hash) == hash_bytes(bytes, sizeof bytes));
  assert_true(hash_bytes(bytes, 0) ==
              UINT64_C(0x2D06800538D394C2)); /* XXH3's published value of nothing */
  uint64_t a[2], b[2];
  hash_bytes_128(bytes, 5000, a);
  hash_bytes_128(bytes, 4999, b);
  assert_true(a[0] != b[0] && a[1] != b[1]);
  hash_destroy(hash);
}

static void make_file(const char *in, const char *name) {
  char *path = path_join(in, name);
  file_writer *writer;
  assert_null(file_writer_create(path, &writer));
  assert_null(file_writer_append(writer, "12345", 5));
  assert_null(file_writer_commit(writer));
  file_writer_destroy(writer);
  free(path);
}

static void test_trees(void **state) {
  (void)state;
  char *tree = folder_create_unique(folder, "tree-"),
       *other = folder_create_unique(folder, "tree-");
  assert_non_null(tree);
  assert_string_not_equal(tree, other);
  assert_true(folder_is_private(tree));
  assert_true(folder_accepts_code(tree));
  char *deep = path_join(tree, "a/b"), *link = path_join(deep, "link");
  assert_null(make_folders(deep, FOLDERS_PRIVATE));
  make_file(tree, "1");
  make_file(deep, "2");
  make_file(other, "kept");
  uint64_t bytes, files;
  folder_measure(folder, &bytes, &files);
  assert_int_equal(bytes, 15);
  assert_int_equal(files, 3);
  assert_int_equal(symlink(other, link), 0);
  assert_false(folder_remove(tree, &bytes)); /* a link stays, and so does its target */
  assert_int_equal(bytes, 10);
  assert_int_equal(unlink(link), 0);
  assert_true(folder_remove(tree, &bytes));
  assert_int_equal(bytes, 0);
  assert_true(folder_remove(other, &bytes));
  assert_int_equal(bytes, 5);
  assert_false(folder_remove(other, &bytes));
  assert_null(folder_create_unique(other, "in-"));
  assert_false(folder_accepts_code(other));
  assert_false(folder_accepts_code("/proc"));
  free(link), free(deep), free(tree), free(other);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_trees),
      cmocka_unit_test(test_write_and_map),
      cmocka_unit_test(test_abandoned_writer_leaves_nothing),
      cmocka_unit_test(test_errors_name_the_path),
      cmocka_unit_test(test_empty_file_and_link),
      cmocka_unit_test(test_folders_and_locks),
      cmocka_unit_test(test_library),
      cmocka_unit_test(test_pool),
      cmocka_unit_test(test_array),
      cmocka_unit_test(test_text),
      cmocka_unit_test(test_hash),
  };
  return cmocka_run_group_tests(tests, set_up, tear_down);
}
