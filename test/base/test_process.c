/* Child processes and the sockets to them. */
#include "base/process.h"

#include <cmocka.h>
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"

static int count_descriptors(void) {
  int n = 0;
  DIR *folder = opendir("/proc/self/fd");
  while (readdir(folder)) n++;
  closedir(folder);
  return n;
}

static child *start_shell(const char *script) {
  const char *arguments[] = {"sh", "-c", script, NULL};
  child *child;
  const char *settings[] = {"CLAVE_TEST_SETTING=as set", "CLAVE_TEST=", NULL};
  assert_null(child_start("/bin/sh", arguments, settings, &child));
  return child;
}

static void test_talk(void **state) {
  (void)state;
  int before = count_descriptors();
  char answer[16] = "";
  child *child = start_shell("cat <&0 >&0");
  int other = child_socket(child), none = -1;
  assert_int_equal(socket_wait(&other, 1, 0), -1);
  assert_int_equal(socket_wait(&none, 1, 0), -1);
  assert_true(socket_send(other, "question", 9, 1000));
  assert_true(socket_receive(other, answer, 9, 5000));
  assert_string_equal(answer, "question");
  assert_false(socket_receive(other, answer, 1, 20)); /* it says nothing more */
  assert_int_equal(child_end(child, 5000), 0);
  assert_int_equal(child_end(NULL, 0), 0);
  assert_int_equal(count_descriptors(), before);
  assert_int_equal(waitpid(-1, NULL, WNOHANG), -1); /* no zombie */
}

static void expect_answer(const char *script, const char *answer) {
  char got[64] = "";
  child *child = start_shell(script);
  assert_true(socket_receive(child_socket(child), got, strlen(answer), 5000));
  assert_string_equal(got, answer);
  child_end(child, 5000);
}

static void test_surroundings(void **state) {
  (void)state;
  int inherited = dup(0); /* a descriptor of the host that exec does not close */
  setenv("CLAVE_TEST_SETTING", "as it was", 1);
  setenv("CLAVE_TEST_SETTING_2", "kept", 1);
  expect_answer("printf \"$CLAVE_TEST_SETTING, $CLAVE_TEST_SETTING_2\" >&0", "as set, kept");
  expect_answer("printf \"$(env | grep -c ^CLAVE_TEST_SETTING=)\" >&0", "1");
  expect_answer("n=$(ls /proc/self/fd | wc -l); printf $n >&0",
                "4"); /* ls has 0, 1, 2 and the folder */
  expect_answer("echo aside; echo aside >&2; printf only >&0", "only");
  close(inherited);
  assert_string_equal(getenv("CLAVE_TEST_SETTING"), "as it was");
}

/* A child that has exited, or that does not end, neither blocks the caller nor raises a signal. */
static void test_bad_children(void **state) {
  (void)state;
  static char much[1 << 20];
  signal(SIGPIPE, SIG_DFL);
  child *child = start_shell("exit 3");
  int other = child_socket(child);
  assert_int_equal(socket_wait(&other, 1, 5000), 0);
  assert_false(socket_send(other, much, sizeof much, 1000));
  assert_false(socket_receive(other, much, 1, 1000));
  assert_int_equal(child_end(child, 5000), 3);
  child = start_shell("kill -SEGV $$");
  assert_int_equal(child_end(child, 5000), 128 + SIGSEGV);
  child = start_shell("trap '' TERM; while :; do sleep 100; done");
  int64_t begin = clock_ns();
  assert_false(socket_send(child_socket(child), much, sizeof much, 50)); /* it does not read */
  assert_int_equal(child_end(child, 50), 128 + SIGKILL);
  assert_true(clock_ns() - begin < INT64_C(20) * 1000000000);
  assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
}

/* A child that listens ends, even if a process that the host forked also has the socket. */
static void test_hang_up(void **state) {
  (void)state;
  child *child = start_shell("read -r line; exit 0");
  int copy = dup(child_socket(child));
  int64_t begin = clock_ns();
  child_hang_up(child);
  child_end(child, 60000);
  assert_true(clock_ns() - begin < INT64_C(30) * 1000000000);
  close(copy);
  assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
}

/* Tests a host whose children are reaped by the system. */
static void test_ignored_children(void **state) {
  (void)state;
  signal(SIGCHLD, SIG_IGN);
  child *child = start_shell("exit 0");
  child_end(child, 1000);
  signal(SIGCHLD, SIG_DFL);
}

static void test_no_program(void **state) {
  (void)state;
  int before = count_descriptors();
  const char *arguments[] = {"none", NULL};
  child *child;
  clave_status st = child_start("/nowhere/none", arguments, arguments + 1, &child);
  assert_non_null(st);
  assert_null(child);
  status_free(st);
  assert_int_equal(count_descriptors(), before);
}

static void test_helper(void **state) {
  (void)state;
  setenv("CLAVE_HELPER", "/bin/sh", 1);
  char *path = find_helper();
  assert_string_equal(path, "/bin/sh");
  free(path);
  setenv("CLAVE_HELPER", "/bin", 1);
  assert_null(find_helper());
  setenv("CLAVE_HELPER", "sh", 1); /* not by PATH */
  assert_null(find_helper());
  setenv("CLAVE_HELPER", "off", 1);
  assert_null(find_helper());
  setenv("CLAVE_HELPER", "", 1);
  assert_null(find_helper()); /* none beside this test */
}

/* Runs `script` by a shell in / and returns its exit status; its output is appended to `log`. */
static int run_tool(const char *script, const char *log) {
  const char *arguments[] = {"sh", "-c", script, NULL};
  tool *tool;
  assert_null(tool_start(arguments, "/", log, &tool));
  return tool_end(tool, NULL, NULL);
}

static void test_tools(void **state) {
  (void)state;
  char log[] = "/tmp/clave_tool_XXXXXX", output[64];
  int before = count_descriptors(), fd = mkstemp(log);
  assert_int_equal(run_tool("pwd; echo bad >&2; cat; exit 3", log), 3);
  assert_int_equal(run_tool("kill -9 $$", log), 128 + 9);
  assert_int_equal(run_tool("echo more", log), 0);
  ssize_t n = read(fd, output, sizeof output);
  assert_memory_equal(output, "/\nbad\nmore\n", 11);
  assert_int_equal(n, 11);
  const char *none[] = {"no-such-tool", NULL};
  tool *tool;
  clave_status st = tool_start(none, "/", log, &tool);
  assert_non_null(strstr(status_message(st), "no-such-tool: "));
  assert_null(tool);
  status_free(st);
  close(fd);
  unlink(log);
  assert_int_equal(count_descriptors(), before);
}

static void expect_output(const tool_log *log, const char *text) {
  file_map output;
  assert_null(file_map_open(log->path, &output));
  assert_int_equal(output.size, strlen(text));
  assert_memory_equal(output.data, text, output.size);
  file_map_close(&output);
}

/* If no memory file can be created, the log is a file on disk. */
static void test_logs(void **state) {
  (void)state;
  char folder[] = "/tmp/clave_tool_XXXXXX";
  const int before = count_descriptors();
  assert_non_null(mkdtemp(folder));
  struct rlimit few = {0}, most;
  assert_int_equal(getrlimit(RLIMIT_NOFILE, &most), 0);
  for (int has_memory = 0; has_memory < 2; has_memory++) {
    tool_log log;
    if (!has_memory) few = (struct rlimit){3, most.rlim_max};
    if (!has_memory) assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
    assert_null(tool_log_open(folder, "log", &log));
    if (!has_memory) assert_non_null(strstr(log.path, "/log"));
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &most), 0);
    assert_int_equal(log.memory >= 0, has_memory);
    assert_int_equal(run_tool("echo one", log.path), 0);
    assert_int_equal(run_tool("echo more >&2", log.path), 0);
    expect_output(&log, "one\nmore\n");
    tool_log_close(&log);
  }
  tool_log_close(&(tool_log){0});
  /* without a standard input, the memory file gets descriptor 0; a second log is open, too */
  const int input = fcntl(0, F_DUPFD_CLOEXEC, 3);
  tool_log first, second;
  close(0);
  assert_null(tool_log_open(folder, "log", &first));
  assert_null(tool_log_open(folder, "answer", &second));
  assert_int_equal(first.memory, 0);
  assert_string_not_equal(first.path, second.path);
  assert_int_equal(run_tool("cat; echo one", first.path), 0);
  expect_output(&first, "one\n");
  tool_log_close(&second);
  tool_log_close(&first);
  assert_int_equal(dup2(input, 0), 0);
  close(input);
  assert_int_equal(rmdir(folder), 0);
  assert_int_equal(count_descriptors(), before);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_talk),         cmocka_unit_test(test_surroundings),
      cmocka_unit_test(test_bad_children), cmocka_unit_test(test_ignored_children),
      cmocka_unit_test(test_no_program),   cmocka_unit_test(test_helper),
      cmocka_unit_test(test_hang_up),      cmocka_unit_test(test_tools),
      cmocka_unit_test(test_logs),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
