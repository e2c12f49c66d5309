#ifndef TEST_DELEGATE_MNIST_H
#define TEST_DELEGATE_MNIST_H
/* Runs a network through the plugin and through clave's own API, which must have the same bits. */
#include "clave.h"
#include "test/delegate/plugin.h"

#define MNIST "examples/mnist/mnist.clv"
enum { PIXELS = 28 * 28, CLASSES = 10, MOST = 3 };

static clave_delegate_handle device;

static inline void fill(float *values, size_t n, unsigned seed) {
  for (size_t i = 0; i < n; i++)
    values[i] = (float)(seed = seed * 1664525u + 1013904223u) / 4294967296.0f;
}

static inline void plain(clave_status st) {
  if (st) print_error("%s\n", clave_status_message(st));
  assert_null(st);
}

/* Computes the scores of n images through clave's own API, as the expected values. */
static inline void classify_plainly(float *images, int64_t n, float *scores) {
  clave_device *cpu;
  clave_program *program;
  clave_session *session;
  clave_tensor tensor, value = clave_tensor_make(CLAVE_F32, 4, (int64_t[]){n, 1, 28, 28}, images);
  plain(clave_device_open("cpu", NULL, &cpu));
  plain(clave_program_load(MNIST, NULL, &program));
  plain(clave_session_create(program, cpu, NULL, &session));
  plain(clave_session_set_input(session, NULL, 0, &value));
  plain(clave_session_run(session, NULL));
  plain(clave_session_output(session, NULL, 0, &tensor));
  memcpy(scores, tensor.data, (size_t)n * CLASSES * sizeof *scores);
  clave_session_destroy(session);
  clave_program_destroy(program);
  clave_device_destroy(cpu);
}

static inline clave_delegate_memory at(void *memory, size_t bytes) {
  return (clave_delegate_memory){
      .size = sizeof(clave_delegate_memory), .memory = memory, .bytes = bytes};
}

static inline void bind(clave_delegate_handle instance, float *images, int64_t n, float *scores) {
  const clave_tensor tensor = clave_tensor_make(CLAVE_F32, 4, (int64_t[]){n, 1, 28, 28}, NULL);
  const clave_delegate_memory in = at(images, (size_t)n * PIXELS * 4);
  const clave_delegate_memory out = at(scores, (size_t)n * CLASSES * 4);
  fine(d.bind_input(instance, "forward", 0, &tensor, &in));
  fine(d.bind_output(instance, "forward", 0, &out));
}

static inline void expect_scores(clave_delegate_handle instance) {
  static float images[MOST * PIXELS], want[MOST * CLASSES], got[MOST * CLASSES];
  for (int64_t n = 1; n <= MOST; n++) {
    fill(images, (size_t)n * PIXELS, (unsigned)n);
    classify_plainly(images, n, want);
    bind(instance, images, n, got);
    for (int run = 0; run < 2; run++) {
      memset(got, 0, sizeof got);
      fine(d.execute(instance, run ? NULL : "forward"));
      assert_memory_equal(got, want, (size_t)n * CLASSES * 4);
    }
    clave_tensor tensor;
    fine(d.result(instance, NULL, 0, &tensor));
    assert_ptr_equal(tensor.data, got);
    assert_int_equal(tensor.dims[0], n);
  }
}

static inline void count_release(void *ctx) { ++*(int *)ctx; }

static inline clave_delegate_handle load_clv(void *bytes, size_t size, bool copy, int *released) {
  clave_delegate_handle p;
  const clave_delegate_payload payload = {.size = sizeof payload,
                                          .data = bytes,
                                          .data_size = size,
                                          .copy = copy,
                                          .release = count_release,
                                          .release_ctx = released};
  fine(d.load(&payload, &p));
  return p;
}

static inline clave_delegate_handle create(clave_delegate_handle p) {
  clave_delegate_handle in;
  fine(d.create(p, device, NULL, &in));
  return in;
}

static inline clave_delegate_handle new_mnist(void) {
  size_t size;
  int released = 0;
  char *bytes = read_file(MNIST, &size);
  clave_delegate_handle p = load_clv(bytes, size, true, &released), in = create(p);
  free(bytes);
  fine(d.unload(p));
  return in;
}

static inline int open_all(void **state) {
  *state = load_plugin();
  const clave_delegate_device_options options = {.size = sizeof options, .device = "cpu"};
  fine(d.open(&options, &device));
  return 0;
}

/* Checks that the plugin can be unloaded without leftovers. */
static inline int close_all(void **state) {
  fine(d.close(device));
  return dlclose(*state);
}

#endif
