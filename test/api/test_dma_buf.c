/* Tests inputs and outputs in dma-bufs (clave_host.h), simulated by shared memory. CPU devices map
 * it; the stub OpenCL imports it if CLAVE_STUB_DMA_BUF is set. */
#include <cmocka.h>
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "clave_builder.h"
#include "clave_host.h"
#include "test/api/expect.h"

enum { WIDTH = 96, MOST = 700, ROW = WIDTH * 4, BYTES = 2 * MOST * ROW };

static const char *device_name;
static clave_program *program;
static clave_device *device;

/* x (rows, WIDTH) -> y = softmax(x), z = softmax(y), n = rows */
static clave_program *make_program(void) {
  const int64_t shape[] = {0, WIDTH};
  clave_builder *builder;
  clave_program *out;
  good(clave_builder_create(&builder));
  const clave_id rows = clave_builder_value(builder, "rows", CLAVE_I64, 0, MOST),
                 values[] = {rows, 0};
  clave_id t[3];
  const char *names[] = {"x", "y", "z"};
  for (int i = 0; i < 3; i++)
    t[i] = clave_builder_tensor(builder, i ? CLAVE_SLOT_OUTPUT : CLAVE_SLOT_INPUT, names[i],
                                CLAVE_F32, 2, shape, values);
  clave_builder_method(builder, "forward");
  clave_builder_input(builder, "x", t[0]);
  for (int i = 0; i < 2; i++) {
    clave_builder_op(builder, "softmax", names[i + 1]);
    clave_builder_set_tensor(builder, "x", t[i]);
    clave_builder_set_int(builder, "axis", -1);
    clave_builder_set_tensor(builder, "out", t[i + 1]);
  }
  for (int i = 1; i < 3; i++) clave_builder_output(builder, names[i], t[i]);
  clave_builder_output(builder, "n", rows);
  good(clave_builder_finish(builder, &out));
  clave_builder_destroy(builder);
  return out;
}

static clave_tensor shape_of(int64_t rows, void *data) {
  return clave_tensor_make(CLAVE_F32, 2, (int64_t[]){rows, WIDTH}, data);
}

/* ---------------------------------------------------------------- shared memory */

typedef struct shared {
  int fd;
  char *data; /* (BYTES) */
} shared;

static shared new_shared(void) {
  shared shared = {.fd = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING)};
  assert_true(shared.fd >= 0 && ftruncate(shared.fd, BYTES) == 0);
  assert_int_equal(fcntl(shared.fd, F_ADD_SEALS, F_SEAL_SHRINK), 0);
  shared.data = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, shared.fd, 0);
  assert_true(shared.data != MAP_FAILED);
  memset(shared.data, 0xA5, BYTES);
  return shared;
}

static void free_shared(shared *shared) {
  munmap(shared->data, BYTES);
  close(shared->fd);
}

/* State of the mocked ioctl: while is_on, it accepts shared memory as a dma-buf and counts
 * calls. */
static struct {
  bool is_on;
  int fail_at; /* number of the call that fails, from 1; 0: no call fails */
  int calls, begun, ended;
} kernel;

/* Replaces the C library's ioctl. */
int ioctl(int fd, unsigned long request, ...) {
  uint64_t flags;
  va_list more;
  va_start(more, request);
  void *what = va_arg(more, void *);
  va_end(more);
  if (request != _IOW('b', 0, uint64_t)) return (int)syscall(SYS_ioctl, fd, request, what);
  if (!kernel.is_on) return errno = ENOTTY, -1;
  if (++kernel.calls == kernel.fail_at) return errno = EIO, -1;
  memcpy(&flags, what, sizeof flags);
  *(flags & 4 ? &kernel.ended : &kernel.begun) += 1;
  return 0;
}

static int count_descriptors(void) {
  DIR *folder = opendir("/proc/self/fd");
  int n = 0;
  while (readdir(folder)) n++;
  closedir(folder);
  return n;
}

/* Reads a counter of the OpenCL stub by its function's name; 0 without the stub. */
static long count_of(const char *name) {
  void *library = dlopen("libOpenCL.so.1", RTLD_NOW | RTLD_NOLOAD);
  void *from = library ? dlsym(library, name) : NULL;
  long (*count)(void);
  if (library) dlclose(library);
  memcpy(&count, &from, sizeof from);
  return from ? count() : 0;
}

/* ---------------------------------------------------------------- runs */

static void fill(char *to, int64_t rows, unsigned seed) {
  for (int64_t i = 0; i < rows * WIDTH; i++) {
    const float x = (float)(seed = seed * 1664525u + 1013904223u) / 4294967296.0f * 9;
    memcpy(to + 4 * i, &x, 4);
  }
}

/* Computes the results and values of a text in plain memory, on the CPU backend. */
static void compute(char *text, int64_t rows, float *results, float *values) {
  clave_device *cpu;
  clave_session *session;
  const clave_tensor tensor = shape_of(rows, text);
  good(clave_device_open("cpu", NULL, &cpu));
  good(clave_session_create(program, cpu, NULL, &session));
  good(clave_session_set_input(session, NULL, 0, &tensor));
  good(clave_session_bind_output(session, NULL, 0, results, (size_t)rows * ROW + 1));
  good(clave_session_bind_output(session, NULL, 1, values, (size_t)rows * ROW + 1));
  good(clave_session_run(session, NULL));
  clave_session_destroy(session);
  clave_device_destroy(cpu);
}

static void expect_near(const char *got, const float *want, int64_t rows) {
  for (int64_t i = 0; i < rows * WIDTH; i++) {
    float x;
    memcpy(&x, got + 4 * i, 4);
    if (!(x - want[i] < 1e-5f && want[i] - x < 1e-5f))
      fail_msg("element %d is %g, not %g", (int)i, (double)x, (double)want[i]);
  }
}

static void expect_untouched(const char *from, const char *end) {
  for (; from < end; from++)
    if (*(const unsigned char *)from != 0xA5) fail_msg("bytes around a result were overwritten");
}

static clave_session *open_session(void) {
  clave_session *session;
  good(clave_session_create(program, device, NULL, &session));
  return session;
}

static void check_rows(clave_session *session, const shared *in, shared *results, shared *counts,
                       int64_t rows, size_t offset, unsigned seed) {
  static float want[2][MOST * WIDTH + 1];
  const size_t bytes = (size_t)rows * ROW;
  const clave_tensor shape = shape_of(rows, NULL);
  const int passing = dup(in->fd); /* closed once it is bound */
  clave_tensor out;
  int64_t count;
  memset(results->data, 0xA5, BYTES);
  good(clave_session_bind_input_dma_buf(session, NULL, 0, &shape, passing, offset));
  close(passing);
  good(clave_session_bind_output_dma_buf(session, NULL, 1, -1, 0, 0)); /* it has moved */
  good(clave_session_bind_output_dma_buf(session, NULL, 0, results->fd, offset, bytes));
  good(
      clave_session_bind_output_dma_buf(session, "forward", 1, results->fd, offset + bytes, bytes));
  good(clave_session_bind_output_dma_buf(session, NULL, 2, counts->fd, 8, 8));
  for (unsigned run = 0; run < 3; run++) {
    fill(in->data + offset, rows, seed + run % 2);
    compute(in->data + offset, rows, want[0], want[1]);
    good(clave_session_run(session, NULL));
    expect_near(results->data + offset, want[0], rows);
    expect_near(results->data + offset + bytes, want[1], rows);
    expect_untouched(results->data, results->data + offset);
    expect_untouched(results->data + offset + 2 * bytes, results->data + BYTES);
    memcpy(&count, counts->data + 8, 8);
    assert_int_equal(count, rows);
  }
  good(clave_session_output(session, NULL, 1, &out));
  assert_null(out.data);
  assert_true(out.rank == 2 && out.dims[0] == rows && out.dims[1] == WIDTH);
}

/* Checks the numbers of imported buffers, and of their acquisitions and releases. */
static void expect_imports(long imports, long transfers) {
  const bool is_khr =
      getenv("CLAVE_STUB_DMA_BUF") && strcmp(getenv("CLAVE_STUB_DMA_BUF"), "khr") == 0;
  assert_int_equal(count_of("stub_imports"), imports);
  assert_int_equal(count_of("stub_transfers"), is_khr ? transfers : 0);
  assert_int_equal(count_of("stub_violations"), 0);
}

static bool imports(void) { return getenv("CLAVE_STUB_DMA_BUF") && strcmp(device_name, "cpu"); }

static void test_results(void **state) {
  (void)state;
  const int descriptors = count_descriptors();
  const long before = count_of("stub_imports"), transfers = count_of("stub_transfers");
  shared in = new_shared(), results = new_shared(), counts = new_shared();
  clave_session *session = open_session();
  check_rows(session, &in, &results, &counts, 3, 64, 1);
  check_rows(session, &in, &results, &counts, MOST - 1, 128,
             2); /* large enough to be used in place */
  if (imports()) /* 2 times x, y, z; n once, since it is the same */
    expect_imports(before + 7, transfers + 2 * 2 * 3 * 4);
  check_rows(session, &in, &results, &counts, 1, 4, 3);
  check_rows(session, &in, &results, &counts, 0, 0, 4);
  clave_session_destroy(session);
  free_shared(&in), free_shared(&results), free_shared(&counts);
  assert_int_equal(count_descriptors(), descriptors);
}

/* Binding the same memory again imports and maps nothing; other memory with the same descriptor
 * number does. */
static void test_bound_again(void **state) {
  (void)state;
  static float want[2][MOST * WIDTH + 1];
  const clave_tensor shape = shape_of(MOST, NULL);
  shared first = new_shared(), second = new_shared(), results = new_shared();
  const int number = dup(first.fd);
  const long before = count_of("stub_imports");
  clave_session *session = open_session();
  good(clave_session_bind_output_dma_buf(session, NULL, 0, results.fd, 0, BYTES / 2));
  fill(first.data, MOST, 1);
  fill(second.data, MOST, 2);
  for (int i = 0; i < 4; i++) {
    if (i == 2) assert_int_equal(dup2(second.fd, number), number);
    good(clave_session_bind_input_dma_buf(session, NULL, 0, &shape, number, 0));
    good(clave_session_run(session, NULL));
    compute(i < 2 ? first.data : second.data, MOST, want[0], want[1]);
    expect_near(results.data, want[0], MOST);
  }
  if (imports()) assert_int_equal(count_of("stub_imports"), before + 3);
  clave_session_destroy(session);
  close(number);
  free_shared(&first), free_shared(&second), free_shared(&results);
}

/* A result, written after all reads, may overwrite an input, also by another descriptor. */
static void test_results_on_inputs(void **state) {
  (void)state;
  static float want[2][MOST * WIDTH + 1];
  const size_t offsets[] = {0, 512};
  shared shared = new_shared();
  const int again = dup(shared.fd);
  const clave_tensor shape = shape_of(MOST / 2, NULL);
  clave_session *session = open_session();
  for (int i = 0; i < 2; i++) {
    good(clave_session_bind_input_dma_buf(session, NULL, 0, &shape, shared.fd, 0));
    good(clave_session_bind_output_dma_buf(session, NULL, 1, again, offsets[i], BYTES / 2));
    fill(shared.data, MOST / 2, 7);
    compute(shared.data, MOST / 2, want[0], want[1]);
    good(clave_session_run(session, NULL));
    expect_near(shared.data + offsets[i], want[1], MOST / 2);
  }
  clave_session_destroy(session);
  close(again);
  free_shared(&shared);
}

static bool look(void *ctx, uint32_t node, uint32_t slot, const clave_tensor *value) {
  (void)node, (void)slot;
  *(int *)ctx += value->data != NULL;
  return true;
}

/* The host observes every intermediate result, also results in dma-bufs. */
static void test_observed(void **state) {
  (void)state;
  int seen = 0;
  shared in = new_shared(), results = new_shared();
  const clave_tensor shape = shape_of(2, NULL);
  clave_session *session = open_session();
  good(clave_session_observe(session, look, &seen));
  fill(in.data, 2, 1);
  good(clave_session_bind_input_dma_buf(session, NULL, 0, &shape, in.fd, 0));
  good(clave_session_bind_output_dma_buf(session, NULL, 0, results.fd, 0, 2 * ROW));
  good(clave_session_run(session, NULL));
  assert_int_equal(seen, 2);
  assert_int_equal(count_of("stub_violations"), 0);
  clave_session_destroy(session);
  free_shared(&in), free_shared(&results);
}

/* ---------------------------------------------------------------- the host's access */

static void expect_status(clave_status st, clave_code code, const char *part) {
  assert_int_equal(clave_status_code(st), code);
  if (!strstr(clave_status_message(st), part))
    fail_msg("%s: no '%s'", clave_status_message(st), part);
  clave_status_free(st);
}

static bool is_set(void *ctx) { return *(bool *)ctx; }

/* Each run begins and ends CPU access once per mapped dma-buf, also when the run fails; the device
 * synchronizes the ones that it imports. */
static void test_synchronised(void **state) {
  (void)state;
  static float want[2][2 * WIDTH + 1];
  const struct {
    bool is_cancelled;
    int fail_at, begun, ended;
  } runs[] = {
      {false, 0, 2, 2}, {true, 0, 2, 2}, {false, 2, 1, 1}, {false, 3, 2, 1}, {false, 0, 2, 2}};
  bool cancels = false;
  shared in = new_shared(), results = new_shared();
  const clave_tensor shape = shape_of(2, NULL);
  const clave_session_options options = {
      .size = sizeof options, .cancel = is_set, .cancel_ctx = &cancels};
  clave_session *session;
  fill(in.data, 2, 1);
  compute(in.data, 2, want[0], want[1]);
  good(clave_session_create(program, device, &options, &session));
  kernel.is_on = true;
  good(clave_session_bind_input_dma_buf(session, NULL, 0, &shape, in.fd, 0));
  good(clave_session_bind_output_dma_buf(session, NULL, 0, results.fd, 0, 2 * ROW));
  for (size_t i = 0; i < sizeof runs / sizeof *runs; i++) {
    kernel.fail_at = imports() ? 0 : runs[i].fail_at;
    kernel.calls = kernel.begun = kernel.ended = 0;
    cancels = runs[i].is_cancelled;
    clave_status st = clave_session_run(session, NULL);
    if (cancels)
      expect_status(st, CLAVE_CANCELLED, "cancelled");
    else if (kernel.fail_at)
      expect_status(st, CLAVE_IO, "DMA_BUF_IOCTL_SYNC: Input/output error");
    else
      good(st);
    assert_int_equal(kernel.begun, imports() ? 0 : runs[i].begun);
    assert_int_equal(kernel.ended, imports() ? 0 : runs[i].ended);
  }
  expect_near(results.data, want[0], 2);
  assert_int_equal(count_of("stub_violations"), 0);
  clave_session_destroy(session);
  memset(&kernel, 0, sizeof kernel);
  free_shared(&in), free_shared(&results);
}

/* ---------------------------------------------------------------- refusals */

static void test_refused(void **state) {
  (void)state;
  const int descriptors = count_descriptors();
  shared shared = new_shared();
  char path[64];
  (void)snprintf(path, sizeof path, "/proc/self/fd/%d", shared.fd);
  const int read_only = open(path, O_RDONLY);
  clave_session *session = open_session();
  clave_tensor tensor = shape_of(2, NULL), strided = shape_of(2, NULL), wrong = tensor;
  strided.strides[0] = WIDTH + 1;
  wrong.dims[1] = 5;
#define IN(shape, fd, offset) \
  clave_session_bind_input_dma_buf(session, NULL, 0, &(shape), fd, offset)
#define OUT(i, fd, offset, size) \
  clave_session_bind_output_dma_buf(session, NULL, i, fd, offset, size)
  expect_invalid(
      IN(tensor, shared.fd, BYTES - ROW),
      "768 bytes at offset 537216 are not inside the dma-buf of 537600 bytes; input 0 ('x')");
  expect_invalid(IN(tensor, shared.fd, SIZE_MAX - 3), "are not inside the dma-buf of 537600 bytes");
  expect_invalid(IN(tensor, shared.fd, 6), "offset 6 is not a multiple of 4");
  expect_invalid(IN(strided, shared.fd, 0), "must be contiguous");
  expect_invalid(IN(wrong, shared.fd, 0), "input 0 ('x') of method 'forward'");
  expect_invalid(IN(tensor, -2, 0), "descriptor -2 of a dma-buf is negative; input 0 ('x')");
  expect_invalid(OUT(0, shared.fd, 4, BYTES),
                 "are not inside the dma-buf of 537600 bytes; output 0 ('y')");
  expect_invalid(OUT(5, shared.fd, 0, ROW), "output 5 is out of range: method 'forward' has 3");
  if (!imports()) expect_status(OUT(0, read_only, 0, ROW), CLAVE_IO, "mmap: Permission denied");
  good(OUT(0, shared.fd, 0, ROW));
  clave_session_destroy(session);
  close(read_only);
  free_shared(&shared);
  assert_int_equal(count_descriptors(), descriptors);
}
#undef IN
#undef OUT

static void test_outputs_apart(void **state) {
  (void)state;
  shared shared = new_shared(), other = new_shared();
  const int again = dup(shared.fd);
  clave_session *session = open_session();
  good(clave_session_bind_output_dma_buf(session, NULL, 0, shared.fd, ROW, ROW));
  expect_invalid(clave_session_bind_output_dma_buf(session, NULL, 1, again, 2 * ROW - 4, ROW),
                 "the memory of outputs 0 ('y') and 1 ('z') of method 'forward' overlaps");
  good(clave_session_bind_output_dma_buf(session, NULL, 1, again, 2 * ROW, ROW));
  good(clave_session_bind_output_dma_buf(session, NULL, 1, other.fd, ROW, ROW));
  clave_session_destroy(session);
  close(again);
  free_shared(&shared), free_shared(&other);
}

/* A dma-buf is released when memory of the session or of the host is bound instead. */
static void test_unbound(void **state) {
  (void)state;
  static float want[2][2 * WIDTH + 1];
  static char own[2 * ROW];
  shared in = new_shared(), results = new_shared();
  const int descriptors = count_descriptors();
  const clave_tensor shape = shape_of(2, NULL), given = shape_of(2, own);
  clave_session *session = open_session();
  clave_tensor out;
  fill(own, 2, 5);
  compute(own, 2, want[0], want[1]);
  for (int i = 0; i < 2; i++) {
    good(clave_session_bind_input_dma_buf(session, NULL, 0, &shape, in.fd, 0));
    good(clave_session_bind_output_dma_buf(session, NULL, 0, results.fd, 0, 2 * ROW));
    good(clave_session_run(session, NULL));
    good(clave_session_bind_input_dma_buf(session, NULL, 0, NULL, -1, 0));
    expect_invalid(clave_session_run(session, NULL),
                   "input 0 ('x') of method 'forward' was not given");
    good(i ? clave_session_bind_input(session, NULL, 0, &given)
           : clave_session_set_input(session, NULL, 0, &given));
    good(clave_session_bind_output_dma_buf(session, NULL, 0, -1, 0, 0));
    memset(results.data, 0xA5, BYTES);
    good(clave_session_run(session, NULL));
    good(clave_session_output(session, NULL, 0, &out));
    assert_non_null(out.data);
    expect_near(out.data, want[0], 2);
    expect_untouched(results.data, results.data + BYTES);
    assert_int_equal(count_descriptors(), descriptors);
  }
  clave_session_destroy(session);
  free_shared(&in), free_shared(&results);
}

/* Checks a device that neither imports dma-bufs nor runs on the host. */
static int check_unsupported(void) {
  shared shared = new_shared();
  const clave_tensor shape = shape_of(1, NULL);
  clave_session *session = open_session();
  expect_status(clave_session_bind_input_dma_buf(session, NULL, 0, &shape, shared.fd, 0),
                CLAVE_UNSUPPORTED,
                "cannot import dma-bufs: it has neither cl_khr_external_memory_dma_buf nor "
                "cl_arm_import_memory_dma_buf; map the dma-buf and bind its address");
  expect_status(clave_session_bind_output_dma_buf(session, NULL, 0, shared.fd, 0, ROW),
                CLAVE_UNSUPPORTED, "cannot import dma-bufs");
  clave_session_destroy(session);
  free_shared(&shared);
  printf("unsupported: refused\n");
  return 0;
}

static int run_on(const char *name) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_results),           cmocka_unit_test(test_bound_again),
      cmocka_unit_test(test_results_on_inputs), cmocka_unit_test(test_observed),
      cmocka_unit_test(test_synchronised),      cmocka_unit_test(test_refused),
      cmocka_unit_test(test_outputs_apart),     cmocka_unit_test(test_unbound),
  };
  device_name = name;
  good(clave_device_open(name, NULL, &device));
  const bool is_refused = strcmp(name, "cpu") && getenv("CLAVE_STUB_GPU") && !imports();
  const int failed = is_refused ? check_unsupported() : cmocka_run_group_tests(tests, NULL, NULL);
  clave_device_destroy(device);
  return failed;
}

int main(void) {
  int failed;
  program = make_program();
  failed = run_on("cpu");
  if (!clave_devices_hint())
    failed += run_on("opencl");
  else
    printf("skipped: %s\n", clave_devices_hint());
  clave_program_destroy(program);
  return failed;
}
