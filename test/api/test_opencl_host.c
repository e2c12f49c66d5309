/* A program that uses OpenCL itself (clave_opencl.h): sessions in its context, on its buffers,
 * after what its queue holds. Run from the project's root. */
#include <pthread.h>
#include <time.h>

#include "api/internal.h"
#include "backend/opencl/device.h"
#include "clave_builder.h"
#include "clave_opencl.h"
#include "test/api/opencl_host.h"

#define MNIST "examples/mnist/mnist.clv"
enum {
  PIXELS = 28 * 28,
  CLASSES = 10,
  IN = 96,
  OUT = 40,
  MAX_ROWS = 64,
  GUARD = 64 /* bytes on both sides of what is bound */
};

/* ---------------------------------------------------------------- a host, its device */

typedef struct host {
  cl_context context;
  cl_command_queue queue;
  clave_device *device;
} host;

static host open_host(cl_command_queue_properties how) {
  host h = {.context = new_context()};
  h.queue = new_queue(h.context, how);
  good(clave_device_create_from_opencl(h.context, host_device, h.queue, NULL, &h.device));
  return h;
}

static void close_host(host *h) {
  clave_device_destroy(h->device);
  right(cl.clReleaseCommandQueue(h->queue));
  right(cl.clReleaseContext(h->context));
}

static void fill(float *x, size_t n, unsigned seed) {
  for (size_t i = 0; i < n; i++)
    x[i] = (float)(seed = seed * 1664525u + 1013904223u) / 4294967296.0f - 0.5f;
}

/* ---------------------------------------------------------------- programs */

/* x (rows, IN) -> y = x w, z = softmax(y), n = rows */
typedef struct product {
  clave_builder *b;
  clave_id rows, x, y, z;
} product;

static void add_ops(const product *p, clave_id weight) {
  clave_builder_op(p->b, "matmul", "product");
  clave_builder_set_tensor(p->b, "a", p->x);
  clave_builder_set_tensor(p->b, "b", weight);
  clave_builder_set_tensor(p->b, "out", p->y);
  clave_builder_op(p->b, "softmax", "softmax");
  clave_builder_set_tensor(p->b, "x", p->y);
  clave_builder_set_int(p->b, "axis", -1);
  clave_builder_set_tensor(p->b, "out", p->z);
}

static clave_program *make_product(void) {
  static float weights[IN * OUT];
  fill(weights, IN * OUT, 5);
  const int64_t shape[] = {IN, OUT}, in[] = {0, IN}, out[] = {0, OUT};
  clave_tensor w = clave_tensor_make(CLAVE_F32, 2, shape, weights);
  clave_program *program;
  product p;
  good(clave_builder_create(&p.b));
  p.rows = clave_builder_value(p.b, "rows", CLAVE_I64, 0, MAX_ROWS);
  const clave_id values[] = {p.rows, 0};
  p.x = clave_builder_tensor(p.b, CLAVE_SLOT_INPUT, "x", CLAVE_F32, 2, in, values);
  p.y = clave_builder_tensor(p.b, CLAVE_SLOT_OUTPUT, "y", CLAVE_F32, 2, out, values);
  p.z = clave_builder_tensor(p.b, CLAVE_SLOT_OUTPUT, "z", CLAVE_F32, 2, out, values);
  clave_builder_method(p.b, "forward");
  clave_builder_input(p.b, "x", p.x);
  add_ops(&p, clave_builder_constant(p.b, "w", &w, true));
  clave_builder_output(p.b, "y", p.y);
  clave_builder_output(p.b, "z", p.z);
  clave_builder_output(p.b, "n", p.rows);
  good(clave_builder_finish(p.b, &program));
  clave_builder_destroy(p.b);
  return program;
}

/* What the CPU backend makes of x: y and z. */
static void compute_product(clave_program *p, float *x, int64_t rows, float *y, float *z) {
  clave_device *device;
  clave_session *s;
  clave_tensor t = clave_tensor_make(CLAVE_F32, 2, (int64_t[]){rows, IN}, x);
  good(clave_device_open("cpu", NULL, &device));
  good(clave_session_create(p, device, NULL, &s));
  good(clave_session_bind_input(s, NULL, 0, &t));
  good(clave_session_bind_output(s, NULL, 0, y, (size_t)rows * OUT * 4 + 1));
  good(clave_session_bind_output(s, NULL, 1, z, (size_t)rows * OUT * 4 + 1));
  good(clave_session_run(s, NULL));
  clave_session_destroy(s);
  clave_device_destroy(device);
}

static void expect_near(const float *got, const float *want, size_t n) {
  for (size_t i = 0; i < n; i++)
    if (!(got[i] - want[i] < 1e-4f && want[i] - got[i] < 1e-4f))
      fail_msg("element %zu is %g, not %g", i, (double)got[i], (double)want[i]);
}

/* ---------------------------------------------------------------- buffers of the host's */

/* A buffer of `room` floats between guards; what lies there is given by a float. */
static cl_mem guarded(const host *h, size_t room) {
  static const float pattern = -77;
  size_t bytes = room * 4 + 2 * GUARD;
  cl_mem m = new_buffer(h->context, CL_MEM_READ_WRITE, bytes, NULL);
  right(cl.clEnqueueFillBuffer(h->queue, m, &pattern, sizeof pattern, 0, bytes, 0, NULL, NULL));
  return m;
}

/* The floats between the guards; those, and what is behind n floats of `room`, are untouched. */
static void take(const host *h, cl_mem m, float *out, size_t n, size_t room) {
  size_t floats = room + 2 * GUARD / 4, first = GUARD / 4;
  float *all = malloc(floats * 4);
  read_from(h->queue, m, 0, all, floats * 4);
  for (size_t i = 0; i < floats; i++)
    if ((i < first || i >= first + n) && all[i] != -77) fail_msg("float %zu was overwritten", i);
  memcpy(out, all + first, n * 4);
  free(all);
}

typedef struct buffers {
  cl_mem x, y, z, n;
} buffers;

static buffers make_buffers(const host *h) {
  return (buffers){guarded(h, MAX_ROWS * IN), guarded(h, MAX_ROWS * OUT),
                   guarded(h, MAX_ROWS * OUT), guarded(h, 2)};
}

static void free_buffers(const buffers *b) {
  right(cl.clReleaseMemObject(b->x));
  right(cl.clReleaseMemObject(b->y));
  right(cl.clReleaseMemObject(b->z));
  right(cl.clReleaseMemObject(b->n));
}

static clave_tensor shape_of(int64_t rows) {
  return clave_tensor_make(CLAVE_F32, 2, (int64_t[]){rows, IN}, NULL);
}

static void bind(clave_session *s, const buffers *b, int64_t rows) {
  clave_tensor shape = shape_of(rows);
  good(clave_session_bind_input_mem(s, NULL, 0, &shape, b->x, GUARD));
  good(clave_session_bind_output_mem(s, NULL, 0, b->y, GUARD, (size_t)rows * OUT * 4));
  good(clave_session_bind_output_mem(s, "forward", 1, b->z, GUARD, MAX_ROWS * OUT * 4));
  good(clave_session_bind_output_mem(s, "forward", 2, b->n, GUARD, 8));
}

static void expect_shape(clave_session *s, uint32_t index, int64_t rows) {
  clave_tensor t;
  good(clave_session_output(s, NULL, index, &t));
  assert_null(t.data);
  assert_true(t.dtype == CLAVE_F32 && t.rank == 2 && t.dims[0] == rows && t.dims[1] == OUT);
}

/* Runs on x of this seed, which the host's queue writes first, and compares with the CPU. */
static void run_product(const host *h, clave_program *p, clave_session *s, const buffers *b,
                        int64_t rows, unsigned seed) {
  static float x[MAX_ROWS * IN], y[MAX_ROWS * OUT + 1], z[MAX_ROWS * OUT + 1], got[MAX_ROWS * OUT];
  size_t n = (size_t)rows * OUT;
  int64_t count;
  fill(x, (size_t)rows * IN, seed);
  if (rows)
    right(cl.clEnqueueWriteBuffer(h->queue, b->x, CL_FALSE, GUARD, (size_t)rows * IN * 4, x, 0,
                                  NULL, NULL));
  good(clave_session_run(s, NULL));
  compute_product(p, x, rows, y, z);
  take(h, b->y, got, n, n); /* earlier runs had fewer rows, or as many */
  expect_near(got, y, n);
  take(h, b->z, got, n, n);
  expect_near(got, z, n);
  read_from(h->queue, b->n, GUARD, &count, sizeof count);
  assert_int_equal(count, rows);
  expect_shape(s, 0, rows);
  expect_shape(s, 1, rows);
}

/* ---------------------------------------------------------------- results */

/* Sizes that change, and two sessions on the same buffers, one with times of its ops. */
static void test_product(void **state) {
  (void)state;
  static const int64_t sizes[] = {0, 1, 3, 3, 17, 64};
  clave_program *p = make_product();
  for (int way = 0; way < 2; way++) {
    host h = open_host(way ? CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE : 0);
    buffers b = make_buffers(&h);
    clave_session *s[2];
    for (int k = 0; k < 2; k++) {
      clave_session_options o = {.size = sizeof o, .profile = k == 1};
      good(clave_session_create(p, h.device, &o, &s[k]));
    }
    right(cl.clFinish(h.queue));
    for (unsigned i = 0; i < sizeof sizes / sizeof *sizes; i++)
      for (unsigned k = 0; k < 2; k++) {
        bind(s[k], &b, sizes[i]);
        run_product(&h, p, s[k], &b, sizes[i], 10 * i + k);
      }
    for (int k = 0; k < 2; k++) clave_session_destroy(s[k]);
    free_buffers(&b);
    close_host(&h);
  }
  clave_program_destroy(p);
}

static void classify(clave_session *s, clave_tensor *x, float *logits) {
  clave_tensor y;
  good(clave_session_set_input(s, NULL, 0, x));
  good(clave_session_run(s, NULL));
  good(clave_session_output(s, NULL, 0, &y));
  memcpy(logits, y.data, (size_t)x->dims[0] * CLASSES * 4);
}

/* A convolution's results are those of the same session from the host's memory, to the bit: runs in
 * turn with a session's own memory, the other buffer, the first again. */
static void test_convolutions(void **state) {
  (void)state;
  enum { MOST = 9 };
  static float images[MOST * PIXELS], want[MOST * CLASSES], got[MOST * CLASSES];
  host h = open_host(0);
  clave_program *p;
  clave_session *s;
  cl_mem x[2], y[2];
  good(clave_program_load(MNIST, NULL, &p));
  good(clave_session_create(p, h.device, NULL, &s));
  for (int k = 0; k < 2; k++) {
    x[k] = guarded(&h, MOST * PIXELS);
    y[k] = guarded(&h, MOST * CLASSES);
  }
  for (unsigned i = 0; i < 8; i++) {
    const int64_t n = (int64_t[]){1, 9, 9, 2}[i % 4];
    const int k = (int)(i / 2 % 2);
    clave_tensor t = clave_tensor_make(CLAVE_F32, 4, (int64_t[]){n, 1, 28, 28}, images);
    fill(images, (size_t)n * PIXELS, i);
    good(clave_session_bind_output_mem(s, NULL, 0, NULL, 0, 0));
    classify(s, &t, want);
    write_to(h.queue, x[k], GUARD, images, (size_t)n * PIXELS * 4);
    good(clave_session_bind_input_mem(s, NULL, 0, &t, x[k], GUARD));
    good(clave_session_bind_output_mem(s, NULL, 0, y[k], GUARD, MOST * CLASSES * 4));
    for (int run = 0; run < 2; run++) {
      good(clave_session_run(s, NULL));
      read_from(h.queue, y[k], GUARD, got, (size_t)n * CLASSES * 4);
      assert_memory_equal(got, want, (size_t)n * CLASSES * 4);
      memset(got, 0, sizeof got);
      write_to(h.queue, y[k], GUARD, got, sizeof got);
    }
  }
  good(clave_session_bind_input_mem(s, NULL, 0, NULL, NULL, 0));
  expect_error(clave_session_run(s, NULL), "was not given");
  assert_true(count_holds(x[0]) == 1 && count_holds(x[1]) == 1);
  clave_session_destroy(s);
  for (int k = 0; k < 2; k++) {
    right(cl.clReleaseMemObject(x[k]));
    right(cl.clReleaseMemObject(y[k]));
  }
  clave_program_destroy(p);
  close_host(&h);
}

/* ---------------------------------------------------------------- no copies, other devices */

static backend_vtable watched;
static const backend_vtable *real;
static int n_moved; /* copies of more than a scalar, and reads and writes by the host */
static ir_op refused;

static clave_status watch_write(stream *s, buffer *to, size_t offset, const void *from,
                                size_t bytes) {
  n_moved++;
  return real->enqueue_write(s, to, offset, from, bytes);
}
static clave_status watch_read(stream *s, const buffer *from, size_t offset, void *to,
                               size_t bytes) {
  n_moved++;
  return real->enqueue_read(s, from, offset, to, bytes);
}
static clave_status watch_wait_read(stream *s, const buffer *from, size_t offset, void *to,
                                    size_t bytes) {
  n_moved++;
  return real->read(s, from, offset, to, bytes);
}
static clave_status watch_copy(stream *s, buffer *to, size_t to_offset, const buffer *from,
                               size_t from_offset, size_t bytes) {
  n_moved++;
  return real->copy(s, to, to_offset, from, from_offset, bytes);
}
static bool refuse(backend *b, const rule_context *c, const ir_instruction *ins,
                   const char **reason) {
  *reason = "the test refuses it";
  return ins->op_type != refused && real->supports(b, c, ins, reason);
}

/* From here on the device's calls are counted, and it does not take that op (IR_OP_COUNT: all). */
static void watch(const host *h, ir_op not_this) {
  real = h->device->set.backends[0]->vt;
  watched = *real;
  watched.enqueue_write = watch_write;
  watched.enqueue_read = watch_read;
  watched.read = watch_wait_read;
  watched.copy = watch_copy;
  watched.supports = refuse;
  refused = not_this;
  h->device->set.backends[0]->vt = &watched;
}

/* Nothing moves where all ops run on the device; an input and results of others do. */
static void test_devices(void **state) {
  (void)state;
  static const struct {
    ir_op refused;
    int moves; /* of a run: x; y; y, z */
  } rows[] = {{IR_OP_COUNT, 0}, {IR_OP_SOFTMAX, 2}, {IR_OP_MATMUL, 3}};
  clave_program *p = make_product();
  for (unsigned i = 0; i < 3; i++) {
    host h = open_host(0);
    buffers b = make_buffers(&h);
    clave_session *s;
    right(cl.clFinish(h.queue));
    watch(&h, rows[i].refused);
    good(clave_session_create(p, h.device, NULL, &s));
    bind(s, &b, 5);
    run_product(&h, p, s, &b, 5, i); /* kernels are compared */
    n_moved = 0;
    run_product(&h, p, s, &b, 5, i + 10);
    assert_int_equal(n_moved, rows[i].moves);
    bind(s, &b, 6);
    run_product(&h, p, s, &b, 6, i + 20);
    clave_session_destroy(s);
    free_buffers(&b);
    close_host(&h);
  }
  clave_program_destroy(p);
}

/* ---------------------------------------------------------------- order */

/* What the queue waits for comes while the run is on its way. */
static void *release_later(void *arg) {
  const cl_event *event = arg;
  nanosleep(&(struct timespec){.tv_nsec = 60000000}, NULL);
  right(cl.clSetUserEventStatus(*event, CL_COMPLETE));
  return NULL;
}

static void run_behind(const host *h, clave_session *s, const buffers *b, float *x, size_t bytes) {
  cl_int code;
  pthread_t thread;
  cl_event event = cl.clCreateUserEvent(h->context, &code);
  right(code);
  right(cl.clEnqueueWriteBuffer(h->queue, b->x, CL_FALSE, GUARD, bytes, x, 1, &event, NULL));
  assert_int_equal(pthread_create(&thread, NULL, release_later, &event), 0);
  good(clave_session_run(s, NULL));
  assert_int_equal(pthread_join(thread, NULL), 0);
  right(cl.clReleaseEvent(event));
}

/* A write that is enqueued before the run, and can only happen later, is what the run reads. */
static void test_order(void **state) {
  (void)state;
  enum { ROWS = 7 };
  static float x[ROWS * IN], y[ROWS * OUT + 1], z[ROWS * OUT + 1], got[ROWS * OUT];
  clave_program *p = make_product();
  for (int way = 0; way < 2; way++) {
    host h = open_host(way ? CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE : 0);
    buffers b = make_buffers(&h);
    clave_session *s;
    right(cl.clFinish(h.queue));
    good(clave_session_create(p, h.device, NULL, &s));
    bind(s, &b, ROWS);
    for (unsigned run = 0; run < 3; run++) {
      fill(x, ROWS * IN, run + 1);
      run_behind(&h, s, &b, x, sizeof x);
      compute_product(p, x, ROWS, y, z);
      read_from(h.queue, b.z, GUARD, got, sizeof got);
      expect_near(got, z, ROWS * OUT);
    }
    clave_session_destroy(s);
    free_buffers(&b);
    close_host(&h);
  }
  clave_program_destroy(p);
}

/* A driver in which a command of the caller's failed; PoCL itself aborts where one does. */
static bool fails;
static cl_int CL_API_CALL tell_failure(cl_event event, cl_event_info what, size_t size, void *value,
                                       size_t *got) {
  const cl_int failed = CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST;
  right(cl.clGetEventInfo(event, what, size, value, got));
  if (fails) memcpy(value, &failed, sizeof failed);
  return CL_SUCCESS;
}

/* What was to be read was never written: an error, and the next run is as good as any. */
static void test_failed_commands_before(void **state) {
  (void)state;
  enum { ROWS = 2 };
  clave_program *p = make_product();
  host h = open_host(0);
  buffers b = make_buffers(&h);
  clave_session *s;
  cl_device *d = (cl_device *)h.device->set.backends[0];
  cl_functions driver = *d->cl;
  driver.clGetEventInfo = tell_failure;
  d->cl = &driver;
  right(cl.clFinish(h.queue));
  good(clave_session_create(p, h.device, NULL, &s));
  bind(s, &b, ROWS);
  run_product(&h, p, s, &b, ROWS, 1);
  fails = true;
  clave_status st = clave_session_run(s, NULL);
  fails = false;
  assert_int_equal(clave_status_code(st), CLAVE_DEVICE);
  assert_non_null(strstr(clave_status_message(st), "the caller's commands before the run"));
  clave_status_free(st);
  clave_tensor y;
  expect_error(clave_session_output(s, NULL, 0, &y), "has not run");
  run_product(&h, p, s, &b, ROWS, 2);
  clave_session_destroy(s);
  free_buffers(&b);
  close_host(&h);
  clave_program_destroy(p);
}

/* ---------------------------------------------------------------- lifetimes */

/* The caller's handles go first, the program and the device too; the session has its own hold. */
static void test_destroyed_in_any_order(void **state) {
  (void)state;
  enum { ROWS = 4 };
  static float x[ROWS * IN], y[ROWS * OUT + 1], z[ROWS * OUT + 1], got[ROWS * OUT];
  clave_program *p = make_product(), *other = make_product();
  host h = open_host(0);
  buffers b = make_buffers(&h);
  clave_session *s;
  fill(x, ROWS * IN, 3);
  write_to(h.queue, b.x, GUARD, x, sizeof x);
  good(clave_session_create(p, h.device, NULL, &s));
  bind(s, &b, ROWS);
  assert_int_equal(count_holds(b.z), 2);
  cl_mem kept = b.z;
  right(cl.clReleaseMemObject(b.x));
  right(cl.clReleaseMemObject(b.y));
  right(cl.clReleaseMemObject(b.n));
  clave_program_destroy(p);
  cl_command_queue reader = new_queue(h.context, 0);
  close_host(&h);
  for (int run = 0; run < 2; run++) good(clave_session_run(s, NULL));
  compute_product(other, x, ROWS, y, z);
  read_from(reader, kept, GUARD, got, sizeof got);
  expect_near(got, z, ROWS * OUT);
  clave_session_destroy(s);
  assert_int_equal(count_holds(kept), 1);
  right(cl.clReleaseMemObject(kept));
  right(cl.clReleaseCommandQueue(reader));
  clave_program_destroy(other);
}

/* ---------------------------------------------------------------- what overlaps */

/* A result may replace an input's bytes: it is written when all have read them. */
static void check_result_on_input(const host *h, clave_program *p, cl_mem in, size_t in_offset,
                                  cl_mem out, size_t out_offset) {
  enum { ROWS = 8 };
  static float x[ROWS * IN], y[ROWS * OUT + 1], z[ROWS * OUT + 1], got[ROWS * OUT];
  clave_tensor shape = shape_of(ROWS);
  clave_session *s;
  good(clave_session_create(p, h->device, NULL, &s));
  good(clave_session_bind_input_mem(s, NULL, 0, &shape, in, in_offset));
  good(clave_session_bind_output_mem(s, NULL, 0, out, out_offset, sizeof got));
  for (unsigned run = 0; run < 3; run++) {
    fill(x, ROWS * IN, run);
    write_to(h->queue, in, in_offset, x, sizeof x);
    compute_product(p, x, ROWS, y, z);
    good(clave_session_run(s, NULL));
    read_from(h->queue, out, out_offset, got, sizeof got);
    expect_near(got, y, ROWS * OUT);
  }
  clave_session_destroy(s);
}

static void test_results_on_inputs(void **state) {
  (void)state;
  enum { PART = 4096, BYTES = 8 * IN * 4 };
  clave_program *p = make_product();
  host h = open_host(0);
  void *memory = aligned_alloc(PART, 2 * PART);
  cl_mem whole = new_buffer(h.context, CL_MEM_READ_WRITE, PART + BYTES, NULL);
  cl_mem part = new_part(whole, PART, BYTES);
  cl_mem in_place = new_buffer(h.context, CL_MEM_USE_HOST_PTR, 2 * PART, memory);
  check_result_on_input(&h, p, whole, 0, whole, 0);
  check_result_on_input(&h, p, whole, 0, whole, 512);
  check_result_on_input(&h, p, part, 0, whole, PART);
  check_result_on_input(&h, p, whole, PART, part, 128);
  check_result_on_input(&h, p, in_place, 64, in_place, 0);
  right(cl.clReleaseMemObject(in_place));
  right(cl.clReleaseMemObject(part));
  right(cl.clReleaseMemObject(whole));
  free(memory);
  clave_program_destroy(p);
  close_host(&h);
}

static void test_results_on_results(void **state) {
  (void)state;
  enum { PART = 4096, BYTES = 1024 };
  clave_program *p = make_product();
  host h = open_host(0);
  cl_mem whole = new_buffer(h.context, 0, 2 * PART, NULL), part = new_part(whole, PART, PART);
  clave_session *s;
  good(clave_session_create(p, h.device, NULL, &s));
  good(clave_session_bind_output_mem(s, NULL, 0, whole, PART, BYTES));
  expect_error(clave_session_bind_output_mem(s, NULL, 1, part, BYTES - 4, BYTES),
               "the memory of outputs 0 ('y') and 1 ('z') of method 'forward' overlaps");
  good(clave_session_bind_output_mem(s, NULL, 1, part, BYTES, BYTES));
  expect_error(clave_session_bind_output_mem(s, NULL, 0, part, BYTES + 4, 4), "overlaps");
  clave_session_destroy(s);
  right(cl.clReleaseMemObject(part));
  right(cl.clReleaseMemObject(whole));
  clave_program_destroy(p);
  close_host(&h);
}

/* Buffers over the same memory of the host's, and that memory itself. */
static void test_results_in_the_hosts_memory(void **state) {
  (void)state;
  enum { BYTES = 4096, PART = 1024 };
  clave_program *p = make_product();
  host h = open_host(0);
  char *memory = aligned_alloc(BYTES, BYTES);
  cl_mem a = new_buffer(h.context, CL_MEM_USE_HOST_PTR, BYTES, memory);
  cl_mem b = new_buffer(h.context, CL_MEM_USE_HOST_PTR, BYTES, memory);
  cl_mem_flags flags = 0;
  clave_session *s;
  right(cl.clGetMemObjectInfo(a, CL_MEM_FLAGS, sizeof flags, &flags, NULL));
  good(clave_session_create(p, h.device, NULL, &s));
  if (flags & CL_MEM_USE_HOST_PTR) { /* else the stub, which copies */
    good(clave_session_bind_output_mem(s, NULL, 0, a, PART, PART));
    expect_error(clave_session_bind_output_mem(s, NULL, 1, b, 0, PART + 4), "overlaps");
    expect_error(clave_session_bind_output(s, NULL, 1, memory + 2 * PART - 4, PART), "overlaps");
    good(clave_session_bind_output(s, NULL, 1, memory + 2 * PART, PART));
    expect_error(clave_session_bind_output_mem(s, NULL, 0, b, PART + 4, PART), "overlaps");
  }
  clave_session_destroy(s);
  right(cl.clReleaseMemObject(a));
  right(cl.clReleaseMemObject(b));
  free(memory);
  clave_program_destroy(p);
  close_host(&h);
}

/* ---------------------------------------------------------------- what is refused */

static void test_bad_handles(void **state) {
  (void)state;
  clave_device *d;
  clave_device_options o = {0};
  cl_context context = new_context(), other = new_context();
  cl_command_queue queue = new_queue(other, 0);
  char nothing[64] = {0};
  expect_error(clave_device_create_from_opencl(NULL, host_device, NULL, NULL, &d),
               "the OpenCL context is NULL");
  assert_null(d);
  expect_error(clave_device_create_from_opencl(context, NULL, NULL, NULL, &d),
               "the OpenCL device is NULL");
  expect_error(clave_device_create_from_opencl(context, nothing, NULL, NULL, &d),
               "OpenCL devices that libOpenCL.so.1 lists");
  expect_error(clave_device_create_from_opencl(context, host_device, queue, NULL, &d),
               "the queue is of another context");
  expect_error(clave_device_create_from_opencl(context, host_device, NULL, &o, &d),
               "clave_device_options: size is 0");
  assert_null(d);
  right(cl.clReleaseCommandQueue(queue));
  right(cl.clReleaseContext(other));
  right(cl.clReleaseContext(context));
}

static void expect_bad_input(clave_session *s, cl_mem m, size_t offset, const char *part) {
  clave_tensor shape = shape_of(2);
  expect_error(clave_session_bind_input_mem(s, NULL, 0, &shape, m, offset), part);
  expect_error(clave_session_run(s, NULL), "input 0 ('x') of method 'forward' was not given");
}

/* An error gives an output back to the session. */
static void expect_bad_output(clave_session *s, cl_mem m, size_t offset, const char *part) {
  expect_error(clave_session_bind_output_mem(s, NULL, 0, m, offset, 2 * OUT * 4), part);
  clave_tensor y;
  float x[2 * IN] = {0};
  clave_tensor t = clave_tensor_make(CLAVE_F32, 2, (int64_t[]){2, IN}, x);
  good(clave_session_set_input(s, NULL, 0, &t));
  good(clave_session_run(s, NULL));
  good(clave_session_output(s, NULL, 0, &y));
  assert_non_null(y.data);
  good(clave_session_bind_input(s, NULL, 0, NULL));
}

static cl_mem new_image(cl_context context) {
  const cl_image_format format = {CL_RGBA, CL_FLOAT};
  const cl_image_desc shape = {
      .image_type = CL_MEM_OBJECT_IMAGE2D, .image_width = 32, .image_height = 32};
  cl_int code;
  cl_mem image = cl.clCreateImage(context, CL_MEM_READ_WRITE, &format, &shape, NULL, &code);
  return code == CL_SUCCESS ? image : NULL; /* not every device has images */
}

static void test_bad_memory(void **state) {
  (void)state;
  enum { BYTES = 4096 };
  static const struct {
    cl_mem_flags flags;
    const char *input, *output; /* NULL: it is taken */
  } rows[] = {
      {CL_MEM_WRITE_ONLY, "the buffer is CL_MEM_WRITE_ONLY", "the buffer is CL_MEM_WRITE_ONLY"},
      {CL_MEM_READ_ONLY, NULL, "the buffer is CL_MEM_READ_ONLY"},
      {CL_MEM_HOST_NO_ACCESS, "is kept from the host", "is kept from the host"},
      {CL_MEM_HOST_WRITE_ONLY, "is kept from the host", "is kept from the host"},
      {CL_MEM_HOST_READ_ONLY, NULL, "is kept from the host"},
  };
  host h = open_host(0), other = open_host(0);
  clave_program *p = make_product();
  clave_session *s;
  clave_tensor shape = shape_of(2);
  good(clave_session_create(p, h.device, NULL, &s));
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    cl_mem m = new_buffer(h.context, rows[i].flags, BYTES, NULL), part = new_part(m, 0, BYTES);
    for (int k = 0; k < 2; k++) {
      if (rows[i].input) expect_bad_input(s, k ? part : m, 0, rows[i].input);
      if (!rows[i].input) good(clave_session_bind_input_mem(s, NULL, 0, &shape, k ? part : m, 0));
      expect_bad_output(s, k ? part : m, 0, rows[i].output);
    }
    right(cl.clReleaseMemObject(part));
    right(cl.clReleaseMemObject(m));
  }
  cl_mem m = new_buffer(h.context, 0, BYTES, NULL), image = new_image(h.context);
  cl_mem foreign = new_buffer(other.context, 0, BYTES, NULL);
  expect_bad_input(s, foreign, 0, "input 0 ('x') of method 'forward'");
  expect_bad_input(s, foreign, 0, "the memory is of another OpenCL context");
  expect_bad_output(s, foreign, 0, "the memory is of another OpenCL context");
  expect_bad_input(s, m, 2, "offset 2 is not a multiple of 4, the size of an element (F32)");
  expect_bad_output(s, m, 6, "offset 6 is not a multiple of 4");
  expect_bad_input(s, m, BYTES - 2 * IN * 4 + 4,
                   "768 bytes from offset 3332 on do not lie in a buffer of 4096");
  expect_bad_output(s, m, BYTES + 4, "from offset 4100 on do not lie in a buffer of 4096");
  expect_bad_output(s, m, SIZE_MAX - 3, "do not lie in a buffer");
  if (image) expect_bad_input(s, image, 0, "is an image or a pipe, no buffer");
  if (image) right(cl.clReleaseMemObject(image));
  right(cl.clReleaseMemObject(m));
  right(cl.clReleaseMemObject(foreign));
  clave_session_destroy(s);
  clave_program_destroy(p);
  close_host(&h);
  close_host(&other);
}

static void test_bad_calls(void **state) {
  (void)state;
  host h = open_host(0);
  clave_program *p = make_product();
  clave_device *cpu;
  clave_session *s;
  clave_tensor shape = shape_of(2), wrong = shape_of(2);
  cl_mem m = new_buffer(h.context, 0, 65536, NULL);
  good(clave_session_create(p, h.device, NULL, &s));
  wrong.dims[1] = IN - 1;
  expect_error(clave_session_bind_input_mem(s, NULL, 0, &wrong, m, 0), "it is F32");
  wrong = shape;
  wrong.strides[0] = 2 * IN;
  expect_error(clave_session_bind_input_mem(s, NULL, 0, &wrong, m, 0), "it is not contiguous");
  wrong.rank = 9;
  expect_error(clave_session_bind_input_mem(s, NULL, 0, &wrong, m, 0), "rank 9");
  expect_error(clave_session_bind_input_mem(s, NULL, 1, &shape, m, 0),
               "input 1 of method 'forward', which has 1");
  expect_error(clave_session_bind_output_mem(s, NULL, 3, m, 0, 8),
               "output 3 of method 'forward', which has 3");
  expect_error(clave_session_bind_input_mem(s, "back", 0, &shape, m, 0), "'back'");
  expect_error(clave_session_bind_output_mem(s, "back", 0, m, 0, 8), "'back'");
  good(clave_session_bind_input_mem(s, NULL, 0, &shape, m, 4096));
  good(clave_session_bind_output_mem(s, NULL, 0, m, 0, 2 * OUT * 4 - 1));
  expect_error(clave_session_run(s, NULL), "output 0 ('y') has 320 bytes, there is room for 319");
  clave_session_destroy(s);
  good(clave_device_open("cpu", NULL, &cpu));
  good(clave_session_create(p, cpu, NULL, &s));
  expect_error(clave_session_bind_input_mem(s, NULL, 0, &shape, m, 0), "has no OpenCL device");
  expect_error(clave_session_bind_output_mem(s, NULL, 0, m, 0, 320), "has no OpenCL device");
  clave_session_destroy(s);
  clave_device_destroy(cpu);
  right(cl.clReleaseMemObject(m));
  clave_program_destroy(p);
  close_host(&h);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_product),
      cmocka_unit_test(test_convolutions),
      cmocka_unit_test(test_devices),
      cmocka_unit_test(test_order),
      cmocka_unit_test(test_failed_commands_before),
      cmocka_unit_test(test_destroyed_in_any_order),
      cmocka_unit_test(test_results_on_inputs),
      cmocka_unit_test(test_results_on_results),
      cmocka_unit_test(test_results_in_the_hosts_memory),
      cmocka_unit_test(test_bad_handles),
      cmocka_unit_test(test_bad_memory),
      cmocka_unit_test(test_bad_calls),
  };
  return find_host_device() ? cmocka_run_group_tests(tests, NULL, NULL) : 0;
}
