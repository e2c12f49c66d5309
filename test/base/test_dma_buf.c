/* Tests dma-bufs, simulated on any machine by memfds whose descriptors respond like them. */
#include "base/dma_buf.h"

#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

enum { BYTES = 3 * 4096 + 100, READ = 1, WRITE = 2, END = 4 };

/* State of the mocked ioctl: how it answers DMA_BUF_IOCTL_SYNC, and the flags that it got. */
static struct {
  bool answers;   /* true if memfds count as dma-bufs */
  bool has_files; /* true if dma-bufs are in a separate file system, as since Linux 5.3 */
  int busy;       /* number of calls that fail before one succeeds */
  int error;
  uint64_t flags[16];
  int n;
} kernel;

/* Replaces the C library's ioctl; it has the same effect on files that are no dma-bufs. */
int ioctl(int fd, unsigned long request, ...) {
  va_list more;
  va_start(more, request);
  void *what = va_arg(more, void *);
  va_end(more);
  if (request != _IOW('b', 0, uint64_t)) return (int)syscall(SYS_ioctl, fd, request, what);
  if (!kernel.answers) return errno = ENOTTY, -1;
  if (kernel.error) return errno = kernel.error, -1;
  if (kernel.busy) return errno = kernel.busy-- % 2 ? EINTR : EAGAIN, -1;
  if (kernel.n < 16) memcpy(&kernel.flags[kernel.n++], what, sizeof *kernel.flags);
  return 0;
}

/* Replaces the C library's fstatfs: reports the file system of dma-bufs if has_files. */
int fstatfs(int fd, struct statfs *out) {
  const int code = (int)syscall(SYS_fstatfs, fd, out);
  if (code == 0 && kernel.has_files) out->f_type = 0x444d4142;
  return code;
}

static void expect_error(clave_status st, status_code code, const char *part) {
  assert_non_null(st);
  assert_int_equal(status_code_of(st), code);
  if (!strstr(status_message(st), part)) fail_msg("%s: no '%s'", status_message(st), part);
  status_free(st);
}

static int new_file(size_t bytes, unsigned seals) {
  const int fd = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  assert_true(fd >= 0 && ftruncate(fd, (off_t)bytes) == 0);
  assert_int_equal(fcntl(fd, F_ADD_SEALS, seals), 0);
  return fd;
}

static void expect_flags(int n, const uint64_t *flags) {
  assert_int_equal(kernel.n, n);
  assert_memory_equal(kernel.flags, flags, (size_t)n * sizeof *flags);
  kernel.n = 0;
}

static void test_a_dma_buf(void **state) {
  (void)state;
  const int fd = new_file(BYTES, 0);
  dma_buf dma_buf;
  memset(&kernel, 0, sizeof kernel);
  kernel.answers = true;
  kernel.busy = 3;
  assert_null(dma_buf_open(fd, &dma_buf));
  expect_flags(2, (uint64_t[]){READ, READ | END});
  assert_true(dma_buf.is_open && dma_buf.is_synchronised && dma_buf.size == BYTES &&
              dma_buf.fd != fd);
  assert_false(dma_buf.is_distinct); /* its file is not a dma-buf of the kernel */
  assert_null(dma_buf_map(&dma_buf, false));
  assert_null(dma_buf_begin(&dma_buf));
  kernel.busy = 2;
  assert_null(dma_buf_end(&dma_buf));
  expect_flags(2, (uint64_t[]){READ, READ | END});
  kernel.error = EIO;
  expect_error(dma_buf_begin(&dma_buf), STATUS_IO, "DMA_BUF_IOCTL_SYNC: Input/output error");
  expect_error(dma_buf_end(&dma_buf), STATUS_IO, "DMA_BUF_IOCTL_SYNC: Input/output error");
  dma_buf_close(&dma_buf);
  dma_buf_close(&dma_buf);
  assert_false(dma_buf.is_open);
  close(fd);
}

/* Since Linux 5.3 the file system identifies a dma-buf, without a cache synchronization. */
static void test_told_by_its_files(void **state) {
  (void)state;
  const int fd = new_file(BYTES, 0);
  dma_buf dma_buf;
  memset(&kernel, 0, sizeof kernel);
  kernel.answers = kernel.has_files = true;
  assert_null(dma_buf_open(fd, &dma_buf));
  assert_int_equal(kernel.n, 0);
  assert_true(dma_buf.is_open && dma_buf.is_synchronised && dma_buf.is_distinct &&
              dma_buf.size == BYTES);
  assert_null(dma_buf_map(&dma_buf, false));
  assert_null(dma_buf_begin(&dma_buf));
  assert_null(dma_buf_end(&dma_buf));
  expect_flags(2, (uint64_t[]){READ, READ | END});
  dma_buf_close(&dma_buf);
  close(fd);
}

/* The caller's descriptor is not kept: it may be closed, or its position moved. */
static void test_what_is_written(void **state) {
  (void)state;
  const int fd = new_file(BYTES, 0);
  char seen[4] = "";
  dma_buf dma_buf;
  memset(&kernel, 0, sizeof kernel);
  kernel.answers = true;
  assert_int_equal(lseek(fd, 7, SEEK_SET), 7);
  assert_null(dma_buf_open(fd, &dma_buf));
  assert_int_equal(lseek(fd, 0, SEEK_CUR), 7);
  const int other = dup(fd);
  close(fd);
  kernel.n = 0;
  assert_null(dma_buf_map(&dma_buf, true));
  assert_null(dma_buf_begin(&dma_buf));
  memcpy((char *)dma_buf.data + BYTES - 4, "done", 4);
  assert_null(dma_buf_end(&dma_buf));
  expect_flags(2, (uint64_t[]){READ | WRITE, READ | WRITE | END});
  dma_buf_close(&dma_buf);
  assert_int_equal(pread(other, seen, 4, BYTES - 4), 4);
  assert_memory_equal(seen, "done", 4);
  close(other);
}

static void test_shared_memory(void **state) {
  (void)state;
  const int fd = new_file(BYTES, F_SEAL_SHRINK), again = dup(fd),
            third = new_file(1, F_SEAL_SHRINK);
  dma_buf first, same, other;
  memset(&kernel, 0, sizeof kernel);
  assert_null(dma_buf_open(fd, &first));
  assert_null(dma_buf_open(again, &same));
  assert_null(dma_buf_open(third, &other));
  assert_true(first.is_distinct && !first.is_synchronised && first.size == BYTES);
  assert_memory_equal(first.id, same.id, sizeof first.id);
  assert_memory_not_equal(first.id, other.id, sizeof first.id);
  kernel.error = EIO; /* nobody asks */
  assert_null(dma_buf_map(&first, true));
  assert_null(dma_buf_begin(&first));
  assert_null(dma_buf_end(&first));
  dma_buf_close(&first);
  dma_buf_close(&same);
  dma_buf_close(&other);
  close(fd), close(again), close(third);
}

static void test_what_is_none(void **state) {
  (void)state;
  const char *const none = "expected a dma-buf, or shared memory that cannot shrink";
  const int plain = new_file(BYTES, 0), sealed = new_file(BYTES, F_SEAL_SHRINK | F_SEAL_WRITE);
  int pipes[2];
  dma_buf dma_buf;
  memset(&kernel, 0, sizeof kernel);
  assert_int_equal(pipe(pipes), 0);
  const int zero = open("/dev/zero", O_RDWR), folder = open("/tmp", O_RDONLY);
  expect_error(dma_buf_open(-1, &dma_buf), STATUS_INVALID,
               "descriptor -1 of a dma-buf is negative");
  expect_error(dma_buf_open(9999, &dma_buf), STATUS_IO, "dma-buf 9999: fstat: Bad file descriptor");
  expect_error(dma_buf_open(plain, &dma_buf), STATUS_INVALID, none);
  kernel.answers = true; /* these are not asked */
  expect_error(dma_buf_open(pipes[0], &dma_buf), STATUS_INVALID, none);
  expect_error(dma_buf_open(zero, &dma_buf), STATUS_INVALID, none);
  expect_error(dma_buf_open(folder, &dma_buf), STATUS_INVALID, none);
  assert_int_equal(kernel.n, 0);
  assert_false(dma_buf.is_open);
  kernel.answers = false;
  assert_null(dma_buf_open(sealed, &dma_buf));
  expect_error(dma_buf_map(&dma_buf, true), STATUS_IO, "mmap: Operation not permitted");
  dma_buf_close(&dma_buf);
  close(plain), close(sealed), close(pipes[0]), close(pipes[1]), close(zero), close(folder);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_a_dma_buf),       cmocka_unit_test(test_told_by_its_files),
      cmocka_unit_test(test_what_is_written), cmocka_unit_test(test_shared_memory),
      cmocka_unit_test(test_what_is_none),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
