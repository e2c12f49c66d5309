/* Tests a host that uses OpenCL itself (clave_opencl.h): sessions run in its context and on its
 * buffers, after the commands in its queue. Run from the project's root. */
#include <pthread.h>
#include <time.h>

#include "api/internal.h"
#include "backend/opencl/launch/stream.h"
#include "test/api/opencl_product.h"

#define MNIST "examples/mnist/mnist.clv"
enum { PIXELS = 28 * 28, CLASSES = 10 };

/* ---------------------------------------------------------------- results */

/* Sizes change, and two sessions, one of which is profiled, use the same buffers. */
static void test_product(void **state) {
  (void)state;
  static const int64_t sizes[] = {0, 1, 3, 3, 17, 64};
  clave_program *program = make_product();
  for (int way = 0; way < count_orders(); way++) {
    host h = open_host(way ? CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE : 0);
    buffers buffers = make_buffers(&h, 0);
    clave_session *session[2];
    for (int k = 0; k < 2; k++) {
      clave_session_options options = {.size = sizeof options, .profile = k == 1};
      good(clave_session_create(program, h.device, &options, &session[k]));
    }
    right(cl.clFinish(h.queue));
    for (unsigned i = 0; i < sizeof sizes / sizeof *sizes; i++)
      for (unsigned k = 0; k < 2; k++) {
        bind(session[k], &buffers, sizes[i]);
        run_product(&h, program, session[k], &buffers, sizes[i], 10 * i + k);
      }
    for (int k = 0; k < 2; k++) clave_session_destroy(session[k]);
    free_buffers(&buffers);
    close_host(&h);
  }
  clave_program_destroy(program);
}

static void classify(clave_session *session, clave_tensor *in, float *logits) {
  clave_tensor out;
  good(clave_session_set_input(session, NULL, 0, in));
  good(clave_session_run(session, NULL));
  good(clave_session_output(session, NULL, 0, &out));
  memcpy(logits, out.data, (size_t)in->dims[0] * CLASSES * 4);
}

/* A convolution has the same bits as in a session with the host's memory. Runs alternate between
 * the session's own memory, another buffer and the first buffer. */
static void test_convolutions(void **state) {
  (void)state;
  enum { MOST = 9 };
  static float images[MOST * PIXELS], want[MOST * CLASSES], got[MOST * CLASSES];
  host h = open_host(0);
  clave_program *program;
  clave_session *session;
  cl_mem x[2], y[2];
  good(clave_program_load(MNIST, NULL, &program));
  good(clave_session_create(program, h.device, NULL, &session));
  for (int k = 0; k < 2; k++) {
    x[k] = guarded(&h, 0, MOST * PIXELS);
    y[k] = guarded(&h, 0, MOST * CLASSES);
  }
  for (unsigned i = 0; i < 8; i++) {
    const int64_t n = (int64_t[]){1, 9, 9, 2}[i % 4];
    const int k = (int)(i / 2 % 2);
    clave_tensor tensor = clave_tensor_make(CLAVE_F32, 4, (int64_t[]){n, 1, 28, 28}, images);
    fill(images, (size_t)n * PIXELS, i);
    good(clave_session_bind_output_mem(session, NULL, 0, NULL, 0, 0));
    classify(session, &tensor, want);
    write_to(h.queue, x[k], GUARD, images, (size_t)n * PIXELS * 4);
    good(clave_session_bind_input_mem(session, NULL, 0, &tensor, x[k], GUARD));
    good(clave_session_bind_output_mem(session, NULL, 0, y[k], GUARD, MOST * CLASSES * 4));
    for (int run = 0; run < 2; run++) {
      good(clave_session_run(session, NULL));
      read_from(h.queue, y[k], GUARD, got, (size_t)n * CLASSES * 4);
      assert_memory_equal(got, want, (size_t)n * CLASSES * 4);
      memset(got, 0, sizeof got);
      write_to(h.queue, y[k], GUARD, got, sizeof got);
    }
  }
  good(clave_session_bind_input_mem(session, NULL, 0, NULL, NULL, 0));
  expect_invalid(clave_session_run(session, NULL), "was not given");
  assert_true(is_held(x[0], 1) && is_held(x[1], 1));
  clave_session_destroy(session);
  for (int k = 0; k < 2; k++) {
    right(cl.clReleaseMemObject(x[k]));
    right(cl.clReleaseMemObject(y[k]));
  }
  clave_program_destroy(program);
  close_host(&h);
}

/* ---------------------------------------------------------------- no copies, other devices */

static backend_vtable watched;
static const backend_vtable *real;
static int n_moved; /* copies of more than a scalar, plus reads and writes by the host */
static ir_op refused;

static clave_status watch_write(stream *stream, buffer *to, size_t offset, const void *from,
                                size_t bytes) {
  n_moved++;
  return real->overlap->write(stream, to, offset, from, bytes);
}
static clave_status watch_read(stream *stream, const buffer *from, size_t offset, void *to,
                               size_t bytes) {
  n_moved++;
  return real->overlap->read(stream, from, offset, to, bytes);
}
static clave_status watch_wait_read(stream *stream, const buffer *from, size_t offset, void *to,
                                    size_t bytes) {
  n_moved++;
  return real->read(stream, from, offset, to, bytes);
}
static clave_status watch_copy(stream *stream, buffer *to, size_t to_offset, const buffer *from,
                               size_t from_offset, size_t bytes) {
  n_moved++;
  return real->copy(stream, to, to_offset, from, from_offset, bytes);
}
static bool refuse(backend *backend, const rule_context *context, const ir_instruction *ins,
                   const char **reason) {
  *reason = "the test refuses it";
  return ins->op_type != refused && real->supports(backend, context, ins, reason);
}

/* Begins to count the device's calls. It refuses the op not_this (IR_OP_COUNT: every op). */
static void watch(const host *host, ir_op not_this) {
  real = host->device->set.backends[0]->vt;
  watched = *real;
  static const backend_overlap overlap = {.write = watch_write, .read = watch_read};
  watched.overlap = &overlap;
  watched.read = watch_wait_read;
  watched.copy = watch_copy;
  watched.supports = refuse;
  refused = not_this;
  host->device->set.backends[0]->vt = &watched;
}

/* Nothing is copied if all ops run on the device. If other devices run ops, their inputs and
 * results are copied, also if the host may not access the buffers. */
static void test_devices(void **state) {
  (void)state;
  static const struct {
    ir_op refused;
    int moves; /* copies per run: x; y; y and z */
  } rows[] = {{IR_OP_COUNT, 0}, {IR_OP_SOFTMAX, 2}, {IR_OP_MATMUL, 3}};
  clave_program *program = make_product();
  for (unsigned i = 0; i < 6; i++) {
    host h = open_host(0);
    buffers buffers = make_buffers(&h, i < 3 ? 0 : CL_MEM_HOST_NO_ACCESS);
    clave_session *session;
    right(cl.clFinish(h.queue));
    watch(&h, rows[i % 3].refused);
    good(clave_session_create(program, h.device, NULL, &session));
    bind(session, &buffers, 5);
    run_product(&h, program, session, &buffers, 5, i); /* kernels are compared */
    n_moved = 0;
    run_product(&h, program, session, &buffers, 5, i + 10);
    assert_int_equal(n_moved, rows[i % 3].moves);
    bind(session, &buffers, 6);
    run_product(&h, program, session, &buffers, 6, i + 20);
    clave_session_destroy(session);
    free_buffers(&buffers);
    close_host(&h);
  }
  clave_program_destroy(program);
}

/* ---------------------------------------------------------------- order */

/* Completes, while the run is in progress, the event that the queue waits for. */
static void *release_later(void *arg) {
  const cl_event *event = arg;
  nanosleep(&(struct timespec){.tv_nsec = 60000000}, NULL);
  right(cl.clSetUserEventStatus(*event, CL_COMPLETE));
  return NULL;
}

static void run_behind(const host *host, clave_session *session, const buffers *buffers,
                       float *values, size_t bytes) {
  cl_int code;
  pthread_t thread;
  cl_event event = cl.clCreateUserEvent(host->context, &code);
  right(code);
  right(cl.clEnqueueWriteBuffer(host->queue, buffers->x, CL_FALSE, GUARD, bytes, values, 1, &event,
                                NULL));
  assert_int_equal(pthread_create(&thread, NULL, release_later, &event), 0);
  good(clave_session_run(session, NULL));
  assert_int_equal(pthread_join(thread, NULL), 0);
  right(cl.clReleaseEvent(event));
}

/* The run reads the data of a write that is enqueued before it and executes later. */
static void test_order(void **state) {
  (void)state;
  enum { ROWS = 7 };
  static float x[ROWS * IN], y[ROWS * OUT + 1], z[ROWS * OUT + 1], got[ROWS * OUT];
  clave_program *program = make_product();
  for (int way = 0; way < count_orders(); way++) {
    host h = open_host(way ? CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE : 0);
    buffers buffers = make_buffers(&h, 0);
    clave_session *session;
    right(cl.clFinish(h.queue));
    good(clave_session_create(program, h.device, NULL, &session));
    bind(session, &buffers, ROWS);
    for (unsigned run = 0; run < 3; run++) {
      fill(x, ROWS * IN, run + 1);
      run_behind(&h, session, &buffers, x, sizeof x);
      compute_product(program, x, ROWS, y, z);
      read_from(h.queue, buffers.z, GUARD, got, sizeof got);
      expect_near(got, z, ROWS * OUT);
    }
    clave_session_destroy(session);
    free_buffers(&buffers);
    close_host(&h);
  }
  clave_program_destroy(program);
}

/* Simulates a driver that reports that a command of the caller failed. PoCL itself aborts. */
static bool fails;
static cl_int CL_API_CALL tell_failure(cl_event event, cl_event_info what, size_t size, void *value,
                                       size_t *got) {
  const cl_int failed = CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST;
  right(cl.clGetEventInfo(event, what, size, value, got));
  if (fails) memcpy(value, &failed, sizeof failed);
  return CL_SUCCESS;
}

/* If the command that writes the input fails, the run fails; the next run succeeds. */
static void test_failed_commands_before(void **state) {
  (void)state;
  enum { ROWS = 2 };
  clave_program *program = make_product();
  host h = open_host(0);
  buffers buffers = make_buffers(&h, 0);
  clave_session *session;
  cl_device *device = (cl_device *)h.device->set.backends[0];
  cl_functions driver = *device->cl;
  driver.clGetEventInfo = tell_failure;
  device->cl = &driver;
  right(cl.clFinish(h.queue));
  good(clave_session_create(program, h.device, NULL, &session));
  bind(session, &buffers, ROWS);
  run_product(&h, program, session, &buffers, ROWS, 1);
  fails = true;
  clave_status st = clave_session_run(session, NULL);
  fails = false;
  assert_int_equal(clave_status_code(st), CLAVE_DEVICE);
  assert_non_null(
      strstr(clave_status_message(st), "waiting for the caller's commands before the run"));
  clave_status_free(st);
  clave_tensor tensor;
  expect_invalid(clave_session_output(session, NULL, 0, &tensor), "has not run");
  run_product(&h, program, session, &buffers, ROWS, 2);
  clave_session_destroy(session);
  free_buffers(&buffers);
  close_host(&h);
  clave_program_destroy(program);
}

/* ---------------------------------------------------------------- lifetimes */

/* The caller's handles, the program and the device are released first. The session has its own
 * references. */
static void test_destroyed_in_any_order(void **state) {
  (void)state;
  enum { ROWS = 4 };
  static float x[ROWS * IN], y[ROWS * OUT + 1], z[ROWS * OUT + 1], got[ROWS * OUT];
  clave_program *program = make_product(), *other = make_product();
  host h = open_host(0);
  buffers buffers = make_buffers(&h, 0);
  clave_session *session;
  fill(x, ROWS * IN, 3);
  write_to(h.queue, buffers.x, GUARD, x, sizeof x);
  good(clave_session_create(program, h.device, NULL, &session));
  bind(session, &buffers, ROWS);
  assert_true(is_held(buffers.z, 2));
  cl_mem kept = buffers.z;
  right(cl.clReleaseMemObject(buffers.x));
  right(cl.clReleaseMemObject(buffers.y));
  right(cl.clReleaseMemObject(buffers.n));
  clave_program_destroy(program);
  cl_command_queue reader = new_queue(h.context, 0);
  close_host(&h);
  for (int run = 0; run < 2; run++) good(clave_session_run(session, NULL));
  compute_product(other, x, ROWS, y, z);
  read_from(reader, kept, GUARD, got, sizeof got);
  expect_near(got, z, ROWS * OUT);
  clave_session_destroy(session);
  assert_true(is_held(kept, 1));
  right(cl.clReleaseMemObject(kept));
  right(cl.clReleaseCommandQueue(reader));
  clave_program_destroy(other);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_product),
      cmocka_unit_test(test_convolutions),
      cmocka_unit_test(test_devices),
      cmocka_unit_test(test_order),
      cmocka_unit_test(test_failed_commands_before),
      cmocka_unit_test(test_destroyed_in_any_order),
  };
  return find_host_device() ? cmocka_run_group_tests(tests, NULL, NULL) : 0;
}
