#ifndef TEST_API_OPENCL_PRODUCT_H
#define TEST_API_OPENCL_PRODUCT_H
/* A clave device in a host's OpenCL context, a program for it, and buffers for the program's input
 * and outputs. */
#include "clave_builder.h"
#include "clave_opencl.h"
#include "test/api/opencl_host.h"

enum {
  IN = 96,
  OUT = 40,
  MAX_ROWS = 64,
  GUARD = 64 /* number of guard elements on both sides of the bound range */
};

/* ---------------------------------------------------------------- a host, its device */

typedef struct host {
  cl_context context;
  cl_command_queue queue;
  clave_device *device;
} host;

static inline host open_host(cl_command_queue_properties how) {
  host h = {.context = new_context()};
  h.queue = new_queue(h.context, how);
  good(clave_device_create_from_opencl(h.context, host_device, h.queue, NULL, &h.device));
  return h;
}

static inline void close_host(host *host) {
  clave_device_destroy(host->device);
  right(cl.clReleaseCommandQueue(host->queue));
  right(cl.clReleaseContext(host->context));
}

static inline void fill(float *values, size_t n, unsigned seed) {
  for (size_t i = 0; i < n; i++)
    values[i] = (float)(seed = seed * 1664525u + 1013904223u) / 4294967296.0f - 0.5f;
}

/* ---------------------------------------------------------------- programs */

/* x (rows, IN) -> y = x w, z = softmax(y), n = rows */
typedef struct product {
  clave_builder *b;
  clave_id rows, x, y, z;
} product;

static inline void add_ops(const product *product, clave_id weight) {
  clave_builder_op(product->b, "matmul", "product");
  clave_builder_set_tensor(product->b, "a", product->x);
  clave_builder_set_tensor(product->b, "b", weight);
  clave_builder_set_tensor(product->b, "out", product->y);
  clave_builder_op(product->b, "softmax", "softmax");
  clave_builder_set_tensor(product->b, "x", product->y);
  clave_builder_set_int(product->b, "axis", -1);
  clave_builder_set_tensor(product->b, "out", product->z);
}

static inline clave_program *make_product(void) {
  static float weights[IN * OUT];
  fill(weights, IN * OUT, 5);
  const int64_t shape[] = {IN, OUT}, in[] = {0, IN}, out[] = {0, OUT};
  clave_tensor tensor = clave_tensor_make(CLAVE_F32, 2, shape, weights);
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
  add_ops(&p, clave_builder_constant(p.b, "w", &tensor, true));
  clave_builder_output(p.b, "y", p.y);
  clave_builder_output(p.b, "z", p.z);
  clave_builder_output(p.b, "n", p.rows);
  good(clave_builder_finish(p.b, &program));
  clave_builder_destroy(p.b);
  return program;
}

/* Computes the expected results and sums on the CPU backend. */
static inline void compute_product(clave_program *program, float *values, int64_t rows,
                                   float *results, float *sums) {
  clave_device *device;
  clave_session *session;
  clave_tensor tensor = clave_tensor_make(CLAVE_F32, 2, (int64_t[]){rows, IN}, values);
  good(clave_device_open("cpu", NULL, &device));
  good(clave_session_create(program, device, NULL, &session));
  good(clave_session_bind_input(session, NULL, 0, &tensor));
  good(clave_session_bind_output(session, NULL, 0, results, (size_t)rows * OUT * 4 + 1));
  good(clave_session_bind_output(session, NULL, 1, sums, (size_t)rows * OUT * 4 + 1));
  good(clave_session_run(session, NULL));
  clave_session_destroy(session);
  clave_device_destroy(device);
}

static inline void expect_near(const float *got, const float *want, size_t n) {
  for (size_t i = 0; i < n; i++)
    if (!(got[i] - want[i] < 1e-4f && want[i] - got[i] < 1e-4f))
      fail_msg("element %zu is %g, not %g", i, (double)got[i], (double)want[i]);
}

/* ---------------------------------------------------------------- host buffers */

/* Creates a buffer of `capacity` floats between guards, all filled with a pattern. */
static inline cl_mem guarded(const host *host, cl_mem_flags flags, size_t capacity) {
  static const float pattern = -77;
  size_t bytes = capacity * 4 + 2 * GUARD;
  cl_mem m = new_buffer(host->context, flags, bytes, NULL);
  right(cl.clEnqueueFillBuffer(host->queue, m, &pattern, sizeof pattern, 0, bytes, 0, NULL, NULL));
  return m;
}

/* Reads n floats and checks that the guards and the rest of `capacity` are untouched. */
static inline void take(const host *host, cl_mem m, float *out, size_t n, size_t capacity) {
  size_t floats = capacity + 2 * GUARD / 4, first = GUARD / 4;
  float *all = malloc(floats * 4);
  read_from(host->queue, m, 0, all, floats * 4);
  for (size_t i = 0; i < floats; i++)
    if ((i < first || i >= first + n) && all[i] != -77) fail_msg("float %zu was overwritten", i);
  memcpy(out, all + first, n * 4);
  free(all);
}

typedef struct buffers {
  cl_mem x, y, z, n;
} buffers;

static inline buffers make_buffers(const host *host, cl_mem_flags flags) {
  return (buffers){guarded(host, flags, MAX_ROWS * IN), guarded(host, flags, MAX_ROWS * OUT),
                   guarded(host, flags, MAX_ROWS * OUT), guarded(host, flags, 2)};
}

static inline void free_buffers(const buffers *buffers) {
  right(cl.clReleaseMemObject(buffers->x));
  right(cl.clReleaseMemObject(buffers->y));
  right(cl.clReleaseMemObject(buffers->z));
  right(cl.clReleaseMemObject(buffers->n));
}

static inline clave_tensor shape_of(int64_t rows) {
  return clave_tensor_make(CLAVE_F32, 2, (int64_t[]){rows, IN}, NULL);
}

static inline void bind(clave_session *session, const buffers *buffers, int64_t rows) {
  clave_tensor shape = shape_of(rows);
  good(clave_session_bind_input_mem(session, NULL, 0, &shape, buffers->x, GUARD));
  good(clave_session_bind_output_mem(session, NULL, 0, buffers->y, GUARD, (size_t)rows * OUT * 4));
  good(clave_session_bind_output_mem(session, "forward", 1, buffers->z, GUARD, MAX_ROWS * OUT * 4));
  good(clave_session_bind_output_mem(session, "forward", 2, buffers->n, GUARD, 8));
}

static inline void expect_shape(clave_session *session, uint32_t index, int64_t rows) {
  clave_tensor tensor;
  good(clave_session_output(session, NULL, index, &tensor));
  assert_null(tensor.data);
  assert_true(tensor.dtype == CLAVE_F32 && tensor.rank == 2 && tensor.dims[0] == rows &&
              tensor.dims[1] == OUT);
}

/* Runs on inputs from this seed, which the host's queue writes, and compares with the CPU. */
static inline void run_product(const host *host, clave_program *program, clave_session *session,
                               const buffers *buffers, int64_t rows, unsigned seed) {
  static float x[MAX_ROWS * IN], y[MAX_ROWS * OUT + 1], z[MAX_ROWS * OUT + 1], got[MAX_ROWS * OUT];
  size_t n = (size_t)rows * OUT;
  int64_t count;
  fill(x, (size_t)rows * IN, seed);
  write_to(host->queue, buffers->x, GUARD, x, (size_t)rows * IN * 4);
  good(clave_session_run(session, NULL));
  compute_product(program, x, rows, y, z);
  take(host, buffers->y, got, n, n); /* earlier runs had fewer rows, or as many */
  expect_near(got, y, n);
  take(host, buffers->z, got, n, n);
  expect_near(got, z, n);
  read_from(host->queue, buffers->n, GUARD, &count, sizeof count);
  assert_int_equal(count, rows);
  expect_shape(session, 0, rows);
  expect_shape(session, 1, rows);
}

#endif
