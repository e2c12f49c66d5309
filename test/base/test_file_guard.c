/* Tests mapped files that are truncated. Reads see zeros and report an error, with any SIGBUS
 * handlers of the process. Other faults are not affected. */
#include <cmocka.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.h"
#include "base/file_guard.h"
#include "base/threads.h"

enum { LARGE = 1 << 20, SHORT = 100000, SMALL = 10000 };

static char folder[64], path[128], other_path[128];

static void write_file(const char *name, size_t bytes, char with) {
  FILE *file = fopen(name, "wb");
  assert_non_null(file);
  for (size_t i = 0; i < bytes; i++) assert_int_equal(fputc(with, file), (unsigned char)with);
  assert_int_equal(fclose(file), 0);
}

static void open_map(const char *name, file_map *out) { assert_null(file_map_open(name, out)); }

static void expect_cut(const file_map *map) {
  clave_status st = file_map_check(map, "m.clv", NULL);
  assert_int_equal(status_code_of(st), STATUS_IO);
  assert_string_equal(status_message(st),
                      "m.clv: expected 1048576 bytes, got fewer: the file was cut short or cannot "
                      "be read since it was opened; load it again");
  status_free(st);
}

static unsigned sum(const file_map *map) {
  unsigned total = 0;
  for (size_t i = 0; i < map->size; i += 512) total += map->data[i];
  return total;
}

static int make_folder(void **state) {
  (void)state;
  (void)snprintf(folder, sizeof folder, "/tmp/clave_guard.XXXXXX");
  if (!mkdtemp(folder)) return -1;
  (void)snprintf(path, sizeof path, "%s/m.clv", folder);
  (void)snprintf(other_path, sizeof other_path, "%s/other", folder);
  return 0;
}

static int remove_folder(void **state) {
  (void)state;
  (void)unlink(path);
  (void)unlink(other_path);
  return rmdir(folder);
}

static void test_zeros_behind_the_end(void **state) {
  (void)state;
  file_map map, other;
  write_file(path, LARGE, 'a');
  write_file(other_path, LARGE, 'b');
  open_map(path, &map);
  open_map(other_path, &other);
  assert_null(file_map_check(&map, "m.clv", NULL));
  assert_int_equal(truncate(path, SHORT), 0);
  expect_cut(&map); /* the truncation is also detected before a fault */
  assert_int_equal(map.data[SHORT - 1], 'a');
  assert_int_equal(map.data[LARGE - 1], 0);
  assert_int_equal(map.data[LARGE / 2], 0);
  expect_cut(&map);
  assert_int_equal(truncate(path, LARGE), 0);
  expect_cut(&map); /* the error stays, because zeros may have been read */
  assert_null(file_map_check(&other, "other", NULL));
  assert_int_equal(other.data[LARGE - 1], 'b');
  file_map_close(&map);
  file_map_close(&other);
}

static void test_changes_are_told(void **state) {
  (void)state;
  file_map map;
  bool changed;
  write_file(path, LARGE, 'a');
  open_map(path, &map);
  assert_null(file_map_check(&map, "m.clv", &changed));
  assert_false(changed);
  const struct timespec later[2] = {{1, 0}, {1, 0}};
  assert_int_equal(utimensat(AT_FDCWD, path, later, 0), 0);
  assert_null(file_map_check(&map, "m.clv", &changed));
  assert_true(changed);
  file_map_settle(&map);
  assert_null(file_map_check(&map, "m.clv", &changed));
  assert_false(changed);
  write_file(path, LARGE, 'c'); /* with the old date, as by rsync --inplace -t */
  assert_int_equal(utimensat(AT_FDCWD, path, later, 0), 0);
  assert_null(file_map_check(&map, "m.clv", &changed));
  assert_true(changed);
  file_map_settle(&map);
  assert_int_equal(rename(path, other_path),
                   0); /* the old file stays mapped, and is checked once */
  write_file(path, SMALL, 'c');
  assert_null(file_map_check(&map, "m.clv", &changed));
  assert_true(changed);
  file_map_settle(&map);
  assert_null(file_map_check(&map, "m.clv", &changed));
  assert_false(changed);
  file_map_close(&map);
}

static void test_writes_are_told(void **state) {
  (void)state;
  file_map map;
  bool changed;
  const struct timespec before[2] = {{1, 0}, {1, 0}};
  write_file(path, LARGE, 'a');
  assert_int_equal(utimensat(AT_FDCWD, path, before, 0), 0);
  open_map(path, &map);
  assert_false(file_map_is_written(&map));
  assert_int_equal(rename(path, other_path), 0);
  assert_null(file_map_check(&map, "m.clv", &changed));
  assert_true(changed);
  assert_false(file_map_is_written(&map)); /* another name is no write */
  FILE *f = fopen(other_path, "r+b");
  assert_non_null(f);
  assert_int_equal(fputc('b', f), 'b');
  assert_int_equal(fclose(f), 0);
  assert_true(file_map_is_written(&map));
  file_map_close(&map);
  write_file(path, SMALL, 'a');
  open_map(path, &map);
  write_file(path, SMALL, 'b');
  assert_false(file_map_is_written(&map)); /* it is a copy */
  file_map_close(&map);
}

static void test_small_files_are_copied(void **state) {
  (void)state;
  file_map map;
  write_file(path, SMALL, 'a');
  open_map(path, &map);
  file_map_release(&map, 0, SMALL);
  assert_int_equal(truncate(path, 0), 0);
  assert_int_equal(map.data[0], 'a');
  assert_int_equal(map.data[SMALL - 1], 'a');
  assert_null(file_map_check(&map, "m.clv", NULL));
  file_map_close(&map);
}

static void expect_refused(file_writer *writer) {
  clave_status st = file_writer_commit(writer);
  assert_int_equal(status_code_of(st), STATUS_IO);
  assert_non_null(
      strstr(status_message(st), "a source file was cut short while this file was written"));
  status_free(st);
  file_writer_destroy(writer);
}

static void test_writers_say_which_file(void **state) {
  (void)state;
  file_map map;
  file_writer *writer;
  write_file(path, LARGE, 'a');
  open_map(path, &map);
  assert_null(file_writer_create(other_path, &writer));
  assert_int_equal(truncate(path, SHORT), 0);
  assert_null(file_writer_append(writer, map.data, map.size));
  expect_refused(writer);
  assert_null(file_writer_create(other_path, &writer));
  assert_null(file_writer_append(writer, map.data, 1)); /* buffered, from an existing page */
  expect_refused(writer);
  file_map_close(&map);
}

/* A file that another process writes is read as a whole, even if mapped files are truncated
 * meanwhile. */
static void test_writers_of_other_memory_go_on(void **state) {
  (void)state;
  file_map map, whole;
  file_writer *writer;
  write_file(path, LARGE, 'a');
  write_file(other_path, LARGE, 'b');
  open_map(path, &map);
  open_map(other_path, &whole);
  char written[160];
  (void)snprintf(written, sizeof written, "%s.written", path);
  assert_null(file_writer_create(written, &writer));
  assert_null(file_writer_append(writer, whole.data, whole.size));
  assert_int_equal(truncate(path, SHORT), 0);
  assert_int_equal(map.data[LARGE - 1], 0);
  assert_null(file_writer_append(writer, "end", 3));
  assert_null(file_writer_append(writer, NULL, 0));
  assert_null(file_writer_commit(writer));
  file_writer_destroy(writer);
  assert_int_equal(unlink(written), 0);
  file_map_close(&whole);
  file_map_close(&map);
}

/* ---------------------------------------------------------------- other handlers */

static volatile sig_atomic_t foreign;
static sigjmp_buf out;
static void host_handler(int number) {
  (void)number;
  foreign++;
  siglongjmp(out, 1);
}
static struct sigaction chained;
static void chaining_handler(int number, siginfo_t *info, void *context) {
  foreign++;
  if (foreign > 100) _exit(3);
  if (chained.sa_flags & SA_SIGINFO)
    chained.sa_sigaction(number, info, context);
  else if (chained.sa_handler != SIG_DFL && chained.sa_handler != SIG_IGN)
    chained.sa_handler(number);
  else
    _exit(7);
}

/* Causes a fault in memory that no guard covers. */
static void fault_elsewhere(void) {
  int fd = open(other_path, O_RDWR | O_CREAT | O_TRUNC, 0600);
  if (ftruncate(fd, 8192) != 0) _exit(4);
  const volatile char *at = mmap(NULL, 8192, PROT_READ, MAP_SHARED, fd, 0);
  if (ftruncate(fd, 0) != 0) _exit(4);
  (void)close(fd);
  (void)at[4096];
}

static void set_handler(bool chains) {
  struct sigaction a = {.sa_flags = chains ? SA_SIGINFO : 0};
  if (chains)
    a.sa_sigaction = chaining_handler;
  else
    a.sa_handler = host_handler;
  if (sigaction(SIGBUS, &a, &chained) != 0) _exit(4);
}

static void cut_and_read(void) {
  file_map map;
  bool changed;
  if (file_map_open(path, &map)) _exit(5);
  if (truncate(path, SHORT) != 0) _exit(4);
  status_free(file_map_check(&map, path, &changed));
  if (map.data[LARGE - 1] || !file_guard_is_cut(map.guard)) _exit(6);
  file_map_close(&map);
}

/* Tests a host's handler in a child process. is_first: the host sets it before ours. Returns the
 * exit status, or the negated signal that ended the child. */
static int try_hosts(bool chains, bool is_first, bool opens_first) {
  static volatile int i; /* kept by longjmp */
  write_file(path, LARGE, 'a');
  pid_t child = fork();
  if (child == 0) {
    (void)signal(SIGBUS, SIG_DFL); /* the handler of cmocka */
    file_map kept = {0};
    if (is_first) set_handler(chains);
    if (opens_first && file_map_open(path, &kept)) _exit(5);
    if (!is_first) set_handler(chains);
    if (opens_first) file_guard_renew(); /* each check of a guard does this */
    if (kept.data && kept.data[LARGE - 1] != 'a') _exit(5);
    cut_and_read();
    if (kept.data && kept.data[LARGE - 2]) _exit(6);
    if (foreign) _exit(8); /* the host's handler does not see faults in our files */
    if (!chains && sigsetjmp(out, 1) == 0) fault_elsewhere();
    if (chains) fault_elsewhere();
    for (i = 0; !chains && i < 50; i++) /* a handler may leave by longjmp any number of times */
      if (sigsetjmp(out, 1) == 0) fault_elsewhere();
    _exit(foreign == 51 ? 0 : 9);
  }
  int status;
  assert_int_equal(waitpid(child, &status, 0), child);
  return WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
}

static void test_hosts_with_handlers(void **state) {
  (void)state;
  for (int opens_first = 0; opens_first < 2; opens_first++) {
    assert_int_equal(try_hosts(false, true, opens_first), 0);
    assert_int_equal(try_hosts(false, false, opens_first), 0);
    /* The host's handler forwards the fault, to the default action or to ours, with the same
     * effect. */
    assert_int_equal(try_hosts(true, true, opens_first), 7);
    assert_int_equal(try_hosts(true, false, opens_first), opens_first ? -SIGBUS : 7);
  }
}

static void test_faults_elsewhere_end_the_process(void **state) {
  (void)state;
  write_file(path, LARGE, 'a');
  pid_t child = fork();
  if (child == 0) {
    (void)signal(SIGBUS, SIG_DFL);
    file_map map;
    if (file_map_open(path, &map)) _exit(5);
    fault_elsewhere();
    _exit(0);
  }
  int status;
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGBUS);
}

static void test_the_signal_is_given_back(void **state) {
  (void)state;
  struct sigaction before, now;
  file_map map[3];
  write_file(path, LARGE, 'a');
  assert_int_equal(sigaction(SIGBUS, NULL, &before), 0);
  for (int round = 0; round < 20; round++) {
    for (int i = 0; i < 3; i++) open_map(path, &map[i]);
    assert_int_equal(sigaction(SIGBUS, NULL, &now), 0);
    assert_true(now.sa_handler != before.sa_handler);
    for (int i = 0; i < 3; i++) file_map_close(&map[i]);
    assert_int_equal(sigaction(SIGBUS, NULL, &now), 0);
    assert_true(now.sa_handler == before.sa_handler);
  }
}

static void test_more_files_than_guards(void **state) {
  (void)state;
  enum { MANY = 300 };
  static file_map map[MANY];
  write_file(path, LARGE, 'a');
  for (int i = 0; i < MANY; i++) open_map(path, &map[i]);
  assert_int_equal(truncate(path, 0), 0);
  for (int i = 0; i < MANY; i++) {
    const bool is_copy = !map[i].guard;
    assert_int_equal(map[i].data[LARGE - 1], is_copy ? 'a' : 0);
    if (!is_copy) expect_cut(&map[i]);
  }
  for (int i = 0; i < MANY; i++) file_map_close(&map[i]);
}

static void read_all(void *ctx, int64_t begin, int64_t end) {
  for (int64_t i = begin; i < end; i++) (void)sum(ctx);
}

static void test_many_threads_read(void **state) {
  (void)state;
  thread_pool *pool;
  file_map map;
  assert_null(thread_pool_create(4, &pool));
  for (int round = 0; round < 20; round++) {
    write_file(path, LARGE, 'a');
    open_map(path, &map);
    assert_int_equal(truncate(path, round * 40000), 0);
    thread_pool_for(pool, 16, 1, read_all, &map);
    expect_cut(&map);
    file_map_close(&map);
  }
  thread_pool_destroy(pool);
}

static atomic_bool is_done;

static void *guard_and_remove(void *ctx) {
  while (!atomic_load(&is_done)) file_guard_remove(file_guard_add(ctx, SMALL));
  return NULL;
}

/* Another thread may hold the lock when the process forks. */
static void test_children_of_a_process_with_threads(void **state) {
  (void)state;
  pthread_t others[2];
  void *memory = mmap(NULL, SMALL, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  assert_true(memory != MAP_FAILED);
  for (int i = 0; i < 2; i++)
    assert_int_equal(pthread_create(&others[i], NULL, guard_and_remove, memory), 0);
  int n_right = 0;
  for (int i = 0; i < 200 && n_right == i; i++) {
    const pid_t child = fork();
    if (child == 0) {
      (void)alarm(10);
      file_guard *guard = file_guard_add(memory, SMALL);
      file_guard_remove(guard);
      _exit(guard ? 0 : 1);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    n_right += status == 0;
  }
  atomic_store(&is_done, true);
  for (int i = 0; i < 2; i++) assert_int_equal(pthread_join(others[i], NULL), 0);
  (void)munmap(memory, SMALL);
  assert_int_equal(n_right, 200);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_zeros_behind_the_end),
      cmocka_unit_test(test_changes_are_told),
      cmocka_unit_test(test_writes_are_told),
      cmocka_unit_test(test_small_files_are_copied),
      cmocka_unit_test(test_writers_say_which_file),
      cmocka_unit_test(test_writers_of_other_memory_go_on),
      cmocka_unit_test(test_hosts_with_handlers),
      cmocka_unit_test(test_faults_elsewhere_end_the_process),
      cmocka_unit_test(test_the_signal_is_given_back),
      cmocka_unit_test(test_more_files_than_guards),
      cmocka_unit_test(test_many_threads_read),
      cmocka_unit_test(test_children_of_a_process_with_threads),
  };
  return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
