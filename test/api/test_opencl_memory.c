/* Memory and handles of a host that uses OpenCL itself (clave_opencl.h): overlaps and refusals. */
#include "backend/backend.h"
#include "base/file.h"
#include "test/api/opencl_product.h"

/* ---------------------------------------------------------------- overlaps */

/* A result may overwrite an input, because it is written after all reads. */
static void check_result_on_input(const host *host, clave_program *program, cl_mem in,
                                  size_t in_offset, cl_mem out, size_t out_offset) {
  enum { ROWS = 8 };
  static float x[ROWS * IN], y[ROWS * OUT + 1], z[ROWS * OUT + 1], got[ROWS * OUT];
  clave_tensor shape = shape_of(ROWS);
  clave_session *session;
  good(clave_session_create(program, host->device, NULL, &session));
  good(clave_session_bind_input_mem(session, NULL, 0, &shape, in, in_offset));
  good(clave_session_bind_output_mem(session, NULL, 0, out, out_offset, sizeof got));
  for (unsigned run = 0; run < 3; run++) {
    fill(x, ROWS * IN, run);
    write_to(host->queue, in, in_offset, x, sizeof x);
    compute_product(program, x, ROWS, y, z);
    good(clave_session_run(session, NULL));
    read_from(host->queue, out, out_offset, got, sizeof got);
    expect_near(got, y, ROWS * OUT);
  }
  clave_session_destroy(session);
}

static void test_results_on_inputs(void **state) {
  (void)state;
  enum { PART = 4096, BYTES = 8 * IN * 4 };
  clave_program *program = make_product();
  host h = open_host(0);
  void *memory = aligned_alloc(PART, 2 * PART);
  cl_mem whole = new_buffer(h.context, CL_MEM_READ_WRITE, PART + BYTES, NULL);
  cl_mem part = new_part(whole, PART, BYTES);
  cl_mem in_place = new_buffer(h.context, CL_MEM_USE_HOST_PTR, 2 * PART, memory);
  check_result_on_input(&h, program, whole, 0, whole, 0);
  check_result_on_input(&h, program, whole, 0, whole, 512);
  check_result_on_input(&h, program, part, 0, whole, PART);
  check_result_on_input(&h, program, whole, PART, part, 128);
  check_result_on_input(&h, program, in_place, 64, in_place, 0);
  right(cl.clReleaseMemObject(in_place));
  right(cl.clReleaseMemObject(part));
  right(cl.clReleaseMemObject(whole));
  free(memory);
  clave_program_destroy(program);
  close_host(&h);
}

static void test_results_on_results(void **state) {
  (void)state;
  enum { PART = 4096, BYTES = 1024 };
  clave_program *program = make_product();
  host h = open_host(0);
  cl_mem whole = new_buffer(h.context, 0, 2 * PART, NULL), part = new_part(whole, PART, PART);
  clave_session *session;
  good(clave_session_create(program, h.device, NULL, &session));
  good(clave_session_bind_output_mem(session, NULL, 0, whole, PART, BYTES));
  expect_invalid(clave_session_bind_output_mem(session, NULL, 1, part, BYTES - 4, BYTES),
                 "the memory of outputs 0 ('y') and 1 ('z') of method 'forward' overlaps");
  good(clave_session_bind_output_mem(session, NULL, 1, part, BYTES, BYTES));
  expect_invalid(clave_session_bind_output_mem(session, NULL, 0, part, BYTES + 4, 4), "overlaps");
  clave_session_destroy(session);
  right(cl.clReleaseMemObject(part));
  right(cl.clReleaseMemObject(whole));
  clave_program_destroy(program);
  close_host(&h);
}

/* x, y (COUNT) -> z = x - y */
enum { COUNT = 64 };
static clave_program *make_difference(void) {
  const int64_t dims[] = {COUNT};
  const clave_operand operands[] = {{.index = 0}, {.index = 1}};
  clave_builder *builder;
  clave_program *program;
  good(clave_builder_create(&builder));
  const clave_id in[] = {
      clave_builder_tensor(builder, CLAVE_SLOT_INPUT, "x", CLAVE_F32, 1, dims, NULL),
      clave_builder_tensor(builder, CLAVE_SLOT_INPUT, "y", CLAVE_F32, 1, dims, NULL)};
  const clave_id z =
      clave_builder_tensor(builder, CLAVE_SLOT_OUTPUT, "z", CLAVE_F32, 1, dims, NULL);
  clave_builder_method(builder, "forward");
  clave_builder_input(builder, "x", in[0]);
  clave_builder_input(builder, "y", in[1]);
  clave_builder_op(builder, "Elementwise", "difference");
  clave_builder_set_tensors(builder, "inputs", in, 2);
  clave_builder_step(builder, "sub", CLAVE_F32, operands, 2);
  clave_builder_set_tensor(builder, "out", z);
  clave_builder_output(builder, "z", z);
  good(clave_builder_finish(builder, &program));
  clave_builder_destroy(builder);
  return program;
}

/* One buffer is two inputs, which may overlap, and a result may overlap both. */
static void test_inputs_on_inputs(void **state) {
  (void)state;
  enum { PART = 4096, FLOATS = 2 * PART / 4, BYTES = COUNT * 4 };
  static float all[FLOATS], got[COUNT];
  clave_program *program = make_difference();
  host h = open_host(0);
  cl_mem whole = new_buffer(h.context, 0, 2 * PART, NULL);
  cl_mem part = new_part(whole, PART, PART), again = new_part(whole, PART, BYTES);
  const clave_tensor shape = clave_tensor_make(CLAVE_F32, 1, (int64_t[]){COUNT}, NULL);
  const struct {
    cl_mem x;
    size_t at_x;
    cl_mem y;
    size_t at_y, x_begins, y_begins;
  } rows[] = {{whole, 0, whole, 0, 0, 0},
              {whole, 0, whole, 8, 0, 8},
              {whole, 128, whole, 0, 128, 0},
              {whole, PART, part, 0, PART, PART},
              {whole, PART - 8, part, 0, PART - 8, PART},
              {part, 12, again, 0, PART + 12, PART},
              {part, 0, again, 0, PART, PART}};
  clave_session *session;
  good(clave_session_create(program, h.device, NULL, &session));
  fill(all, FLOATS, 9);
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
    for (size_t z = 0; z < 3; z++) { /* the result is at x, at y, or overlaps both */
      const size_t out = z == 0   ? rows[i].x_begins
                         : z == 1 ? rows[i].y_begins
                                  : (rows[i].x_begins + rows[i].y_begins) / 8 * 4 + 4;
      write_to(h.queue, whole, 0, all, sizeof all);
      good(clave_session_bind_input_mem(session, NULL, 0, &shape, rows[i].x, rows[i].at_x));
      good(clave_session_bind_input_mem(session, NULL, 1, &shape, rows[i].y, rows[i].at_y));
      good(clave_session_bind_output_mem(session, NULL, 0, whole, out, BYTES));
      good(clave_session_run(session, NULL));
      read_from(h.queue, whole, out, got, sizeof got);
      for (size_t k = 0; k < COUNT; k++)
        assert_true(got[k] == all[rows[i].x_begins / 4 + k] - all[rows[i].y_begins / 4 + k]);
    }
  clave_session_destroy(session);
  right(cl.clReleaseMemObject(again));
  right(cl.clReleaseMemObject(part));
  right(cl.clReleaseMemObject(whole));
  clave_program_destroy(program);
  close_host(&h);
}

/* Results go to buffers over the same host memory, and to that memory itself. */
static void test_results_in_the_hosts_memory(void **state) {
  (void)state;
  enum { BYTES = 4096, PART = 1024 };
  clave_program *program = make_product();
  host h = open_host(0);
  char *memory = aligned_alloc(BYTES, BYTES);
  cl_mem a = new_buffer(h.context, CL_MEM_USE_HOST_PTR, BYTES, memory);
  cl_mem b = new_buffer(h.context, CL_MEM_USE_HOST_PTR, BYTES, memory);
  cl_mem_flags flags = 0;
  clave_session *session;
  right(cl.clGetMemObjectInfo(a, CL_MEM_FLAGS, sizeof flags, &flags, NULL));
  good(clave_session_create(program, h.device, NULL, &session));
  if (flags & CL_MEM_USE_HOST_PTR) { /* else the stub, which copies */
    good(clave_session_bind_output_mem(session, NULL, 0, a, PART, PART));
    expect_invalid(clave_session_bind_output_mem(session, NULL, 1, b, 0, PART + 4), "overlaps");
    expect_invalid(clave_session_bind_output(session, NULL, 1, memory + 2 * PART - 4, PART),
                   "overlaps");
    good(clave_session_bind_output(session, NULL, 1, memory + 2 * PART, PART));
    expect_invalid(clave_session_bind_output_mem(session, NULL, 0, b, PART + 4, PART), "overlaps");
  }
  clave_session_destroy(session);
  right(cl.clReleaseMemObject(a));
  right(cl.clReleaseMemObject(b));
  free(memory);
  clave_program_destroy(program);
  close_host(&h);
}

/* ---------------------------------------------------------------- refusals */

static void test_bad_handles(void **state) {
  (void)state;
  clave_device *device;
  clave_device_options options = {0};
  cl_context context = new_context(), other = new_context();
  cl_command_queue queue = new_queue(other, 0);
  char nothing[64] = {0};
  expect_invalid(clave_device_create_from_opencl(NULL, host_device, NULL, NULL, &device),
                 "the OpenCL context is NULL");
  assert_null(device);
  expect_invalid(clave_device_create_from_opencl(context, NULL, NULL, NULL, &device),
                 "the OpenCL device is NULL");
  expect_invalid(clave_device_create_from_opencl(context, nothing, NULL, NULL, &device),
                 "usable OpenCL devices of libOpenCL.so.1");
  expect_invalid(clave_device_create_from_opencl(context, host_device, queue, NULL, &device),
                 "the queue belongs to another context");
  expect_too_small(clave_device_create_from_opencl(context, host_device, NULL, &options, &device),
                   "clave_device_options", 0);
  assert_null(device);
  right(cl.clReleaseCommandQueue(queue));
  right(cl.clReleaseContext(other));
  right(cl.clReleaseContext(context));
}

static void no_note(void *ctx, const char *line) {
  (void)ctx;
  fail_msg("a note: %s", line);
}

/* Runs two sessions, one after the other, which store the binaries of their kernels. */
static void run_on_both(cl_context both, const cl_device_id *devices) {
  char folder[] = "/tmp/clave-test-XXXXXX";
  cache_stats kept, before = {0};
  uint64_t bytes;
  assert_non_null(mkdtemp(folder));
  clave_program *program = make_product();
  for (int i = 0; i < 2; i++) {
    clave_device_options options = {
        .size = sizeof options, .cache_dir = folder, .message = no_note};
    host h = {both, new_queue_on(both, devices[i], 0), NULL};
    clave_session *session;
    good(clave_device_create_from_opencl(both, devices[i], h.queue, &options, &h.device));
    good(clave_session_create(program, h.device, NULL, &session));
    buffers buffers = make_buffers(&h, 0);
    bind(session, &buffers, 3);
    run_product(&h, program, session, &buffers, 3, 1);
    clave_session_destroy(session);
    free_buffers(&buffers);
    clave_device_destroy(h.device);
    right(cl.clReleaseCommandQueue(h.queue));
    good(cache_info(folder, &kept));
    assert_true(kept.files > before.files);
    before = kept;
  }
  clave_program_destroy(program);
  assert_true(folder_remove(folder, &bytes));
}

/* Tests a context of two devices, and a context without the session's device. */
static void test_other_devices(void **state) {
  (void)state;
  clave_device *device;
  if (!other_device) skip();
  const cl_device_id devices[] = {host_device, other_device};
  cl_context both = new_context_of(devices, 2), one = new_context_of(&other_device, 1);
  cl_command_queue queue = new_queue_on(both, other_device, 0);
  expect_invalid(clave_device_create_from_opencl(one, host_device, NULL, NULL, &device),
                 "the context does not belong to this device");
  expect_invalid(clave_device_create_from_opencl(both, host_device, queue, NULL, &device),
                 "the queue belongs to another device of the context");
  run_on_both(both, devices);
  right(cl.clReleaseCommandQueue(queue));
  right(cl.clReleaseContext(both));
  right(cl.clReleaseContext(one));
}

static void expect_bad_input(clave_session *session, cl_mem m, size_t offset, const char *part) {
  clave_tensor shape = shape_of(2);
  expect_invalid(clave_session_bind_input_mem(session, NULL, 0, &shape, m, offset), part);
  expect_invalid(clave_session_run(session, NULL),
                 "input 0 ('x') of method 'forward' was not given");
}

/* Expects an error, after which the output is in the session's own memory again. */
static void expect_bad_output(clave_session *session, cl_mem m, size_t offset, const char *part) {
  expect_invalid(clave_session_bind_output_mem(session, NULL, 0, m, offset, 2 * OUT * 4), part);
  clave_tensor tensor;
  float x[2 * IN] = {0};
  clave_tensor value = clave_tensor_make(CLAVE_F32, 2, (int64_t[]){2, IN}, x);
  good(clave_session_set_input(session, NULL, 0, &value));
  good(clave_session_run(session, NULL));
  good(clave_session_output(session, NULL, 0, &tensor));
  assert_non_null(tensor.data);
  good(clave_session_bind_input(session, NULL, 0, NULL));
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
    const char *input, *output; /* NULL: accepted */
  } rows[] = {
      {CL_MEM_WRITE_ONLY,
       "a buffer with CL_MEM_WRITE_ONLY cannot be bound, because it is also read",
       "a buffer with CL_MEM_WRITE_ONLY cannot be bound, because it is also read"},
      {CL_MEM_READ_ONLY, NULL, "an output buffer cannot be CL_MEM_READ_ONLY"},
      {CL_MEM_HOST_NO_ACCESS, NULL, NULL},
      {CL_MEM_HOST_WRITE_ONLY, NULL, NULL},
      {CL_MEM_HOST_READ_ONLY, NULL, NULL},
  };
  host h = open_host(0), other = open_host(0);
  clave_program *program = make_product();
  clave_session *session;
  clave_tensor shape = shape_of(2);
  good(clave_session_create(program, h.device, NULL, &session));
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    cl_mem m = new_buffer(h.context, rows[i].flags, BYTES, NULL), part = new_part(m, 0, BYTES);
    for (int k = 0; k < 2; k++) {
      if (rows[i].input) expect_bad_input(session, k ? part : m, 0, rows[i].input);
      if (!rows[i].input)
        good(clave_session_bind_input_mem(session, NULL, 0, &shape, k ? part : m, 0));
      if (rows[i].output) expect_bad_output(session, k ? part : m, 0, rows[i].output);
      if (rows[i].output) continue;
      good(clave_session_bind_output_mem(session, NULL, 0, k ? part : m, 2048, 2 * OUT * 4));
      good(clave_session_run(session, NULL));
      good(clave_session_bind_output_mem(session, NULL, 0, NULL, 0, 0));
    }
    right(cl.clReleaseMemObject(part));
    right(cl.clReleaseMemObject(m));
  }
  cl_mem m = new_buffer(h.context, 0, BYTES, NULL), image = new_image(h.context);
  cl_mem foreign = new_buffer(other.context, 0, BYTES, NULL);
  expect_bad_input(session, foreign, 0, "input 0 ('x') of method 'forward'");
  expect_bad_input(session, foreign, 0, "the memory belongs to another OpenCL context");
  expect_bad_output(session, foreign, 0, "the memory belongs to another OpenCL context");
  expect_bad_input(session, m, 2, "offset 2 is not a multiple of 4, the size of an element (F32)");
  expect_bad_output(session, m, 6, "offset 6 is not a multiple of 4");
  expect_bad_input(session, m, BYTES - 2 * IN * 4 + 4,
                   "768 bytes at offset 3332 are not inside the buffer of 4096");
  expect_bad_output(session, m, BYTES + 4, "at offset 4100 are not inside the buffer of 4096");
  expect_bad_output(session, m, SIZE_MAX - 3, "are not inside the buffer");
  if (image) expect_bad_input(session, image, 0, "expected a buffer, got an image or a pipe");
  if (image) right(cl.clReleaseMemObject(image));
  right(cl.clReleaseMemObject(m));
  right(cl.clReleaseMemObject(foreign));
  clave_session_destroy(session);
  clave_program_destroy(program);
  close_host(&h);
  close_host(&other);
}

static void test_bad_calls(void **state) {
  (void)state;
  host h = open_host(0);
  clave_program *program = make_product();
  clave_device *cpu;
  clave_session *session;
  clave_tensor shape = shape_of(2), wrong = shape_of(2);
  cl_mem m = new_buffer(h.context, 0, 65536, NULL);
  good(clave_session_create(program, h.device, NULL, &session));
  wrong.dims[1] = IN - 1;
  expect_invalid(clave_session_bind_input_mem(session, NULL, 0, &wrong, m, 0), "expected F32");
  wrong = shape;
  wrong.strides[0] = 2 * IN;
  expect_invalid(clave_session_bind_input_mem(session, NULL, 0, &wrong, m, 0),
                 "a tensor in device memory must be contiguous");
  wrong.rank = 9;
  expect_invalid(clave_session_bind_input_mem(session, NULL, 0, &wrong, m, 0),
                 "expected rank 0 to 8, got 9");
  expect_invalid(clave_session_bind_input_mem(session, NULL, 1, &shape, m, 0),
                 "input 1 is out of range: method 'forward' has 1");
  expect_invalid(clave_session_bind_output_mem(session, NULL, 3, m, 0, 8),
                 "output 3 is out of range: method 'forward' has 3");
  expect_invalid(clave_session_bind_input_mem(session, "back", 0, &shape, m, 0), "'back'");
  expect_invalid(clave_session_bind_output_mem(session, "back", 0, m, 0, 8), "'back'");
  good(clave_session_bind_input_mem(session, NULL, 0, &shape, m, 4096));
  good(clave_session_bind_output_mem(session, NULL, 0, m, 0, 2 * OUT * 4 - 1));
  expect_invalid(clave_session_run(session, NULL),
                 "output 0 ('y') has 320 bytes, and the given memory has 319");
  clave_session_destroy(session);
  good(clave_device_open("cpu", NULL, &cpu));
  good(clave_session_create(program, cpu, NULL, &session));
  expect_invalid(clave_session_bind_input_mem(session, NULL, 0, &shape, m, 0),
                 "has no OpenCL device");
  expect_invalid(clave_session_bind_output_mem(session, NULL, 0, m, 0, 320),
                 "has no OpenCL device");
  clave_session_destroy(session);
  clave_device_destroy(cpu);
  right(cl.clReleaseMemObject(m));
  clave_program_destroy(program);
  close_host(&h);
}

/* While the CPU backend runs a session, the session refuses memory of the device. */
static void test_memory_while_warming_up(void **state) {
  (void)state;
  const clave_session_options options = {.size = sizeof options,
                                         .warm_up = CLAVE_WARM_UP_BACKGROUND};
  clave_program *program = make_product();
  host h = open_host(0);
  cl_mem memory = new_buffer(h.context, CL_MEM_READ_WRITE, 4096, NULL);
  clave_tensor shape = shape_of(2);
  clave_session *session;
  good(clave_session_create(program, h.device, &options, &session));
  expect_invalid(clave_session_bind_input_mem(session, NULL, 0, &shape, memory, 0),
                 "the CPU backend answers until");
  expect_invalid(clave_session_bind_output_mem(session, NULL, 0, memory, 0, 512),
                 "the CPU backend answers until");
  good(clave_session_bind_input_mem(session, NULL, 0, &shape, NULL, 0));
  clave_session_destroy(session);
  right(cl.clReleaseMemObject(memory));
  clave_program_destroy(program);
  close_host(&h);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_results_on_inputs),
      cmocka_unit_test(test_results_on_results),
      cmocka_unit_test(test_inputs_on_inputs),
      cmocka_unit_test(test_results_in_the_hosts_memory),
      cmocka_unit_test(test_bad_handles),
      cmocka_unit_test(test_other_devices),
      cmocka_unit_test(test_bad_memory),
      cmocka_unit_test(test_bad_calls),
      cmocka_unit_test(test_memory_while_warming_up),
  };
  return find_host_device() ? cmocka_run_group_tests(tests, NULL, NULL) : 0;
}
