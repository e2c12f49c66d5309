/* Tests promises of clave.h beyond a single run: sessions in several threads on one device and one
 * program, any order of destruction, a memory budget that is checked before the run, strided
 * inputs, placement. Run from the project's root. */
#include <cmocka.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "test/api/expect.h"

#define MNIST "examples/mnist/mnist.clv"
enum { PIXELS = 28 * 28, CLASSES = 10, THREADS = 4, RUNS = 5 };

static void fill_images(float *values, int64_t n, unsigned seed) {
  for (int64_t i = 0; i < n * PIXELS; i++)
    values[i] = (float)(seed = seed * 1664525u + 1013904223u) / 4294967296.0f;
}

static clave_status classify(clave_session *session, float *images, int64_t n, float *logits) {
  int64_t dims[] = {n, 1, 28, 28};
  clave_tensor in = clave_tensor_make(CLAVE_F32, 4, dims, images), out;
  clave_status st = clave_session_set_input(session, "forward", 0, &in);
  if (!st) st = clave_session_run(session, "forward");
  if (!st) st = clave_session_output(session, NULL, 0, &out);
  if (!st) memcpy(logits, out.data, (size_t)n * CLASSES * sizeof *logits);
  return st;
}

typedef struct worker {
  clave_program *program;
  clave_device *device;
  int64_t n;
  unsigned seed;
  float first[CLASSES * 8], again[CLASSES * 8];
  clave_status status;
} worker;

static void *work(void *arg) {
  worker *worker = arg;
  float *images = malloc((size_t)worker->n * PIXELS * sizeof *images);
  clave_session *session = NULL;
  fill_images(images, worker->n, worker->seed);
  worker->status = clave_session_create(worker->program, worker->device, NULL, &session);
  if (!worker->status) worker->status = classify(session, images, worker->n, worker->first);
  for (int i = 1; i < RUNS && !worker->status; i++)
    worker->status = classify(session, images, worker->n, worker->again);
  clave_session_destroy(session);
  free(images);
  return NULL;
}

static void run_threads(const char *spec) {
  clave_device *device;
  clave_program *program;
  pthread_t threads[THREADS];
  worker helper[THREADS], alone;
  good(clave_device_open(spec, NULL, &device));
  good(clave_program_load(MNIST, NULL, &program));
  memset(helper, 0, sizeof helper);
  for (int i = 0; i < THREADS; i++) {
    helper[i] = (worker){.program = program, .device = device, .n = 1 + i % 3, .seed = (unsigned)i};
    assert_int_equal(pthread_create(&threads[i], NULL, work, &helper[i]), 0);
  }
  for (int i = 0; i < THREADS; i++) assert_int_equal(pthread_join(threads[i], NULL), 0);
  for (int i = 0; i < THREADS; i++) {
    good(helper[i].status);
    memset(&alone, 0, sizeof alone);
    alone =
        (worker){.program = program, .device = device, .n = helper[i].n, .seed = helper[i].seed};
    work(&alone);
    good(alone.status);
    /* results have the same bits each time, also beside other sessions */
    assert_memory_equal(helper[i].first, helper[i].again,
                        (size_t)helper[i].n * CLASSES * sizeof(float));
    assert_memory_equal(helper[i].first, alone.first,
                        (size_t)helper[i].n * CLASSES * sizeof(float));
  }
  clave_program_destroy(program);
  clave_device_destroy(device);
}

static void test_threads_cpu(void **state) {
  (void)state;
  run_threads("cpu");
}

static void test_threads_opencl(void **state) {
  (void)state;
  if (clave_devices_hint()) skip();
  run_threads("opencl");
}

static void test_session_outlives_what_made_it(void **state) {
  (void)state;
  clave_device *device;
  clave_program *program;
  clave_session *session;
  float image[PIXELS] = {0}, logits[CLASSES];
  good(clave_device_open("cpu", NULL, &device));
  good(clave_program_load(MNIST, NULL, &program));
  good(clave_session_create(program, device, NULL, &session));
  clave_device_destroy(device);
  clave_program_destroy(program);
  good(classify(session, image, 1, logits));
  clave_session_destroy(session);
}

/* Retains and releases a device that the first thread has already released. */
static void *share_device(void *arg) {
  clave_device *device = arg;
  for (int i = 0; i < 1000; i++) clave_device_destroy(clave_device_retain(device));
  clave_program *program;
  clave_session *session;
  float image[PIXELS] = {0}, logits[CLASSES];
  good(clave_program_load(MNIST, NULL, &program));
  good(clave_session_create(program, device, NULL, &session));
  clave_device_destroy(device);
  good(classify(session, image, 1, logits));
  clave_session_destroy(session);
  clave_program_destroy(program);
  return NULL;
}

static void test_device_is_retained(void **state) {
  (void)state;
  clave_device *device;
  pthread_t threads[THREADS];
  good(clave_device_open("cpu", NULL, &device));
  for (int i = 0; i < THREADS; i++) {
    assert_ptr_equal(clave_device_retain(device), device);
    assert_int_equal(pthread_create(&threads[i], NULL, share_device, device), 0);
  }
  clave_device_destroy(device);
  for (int i = 0; i < THREADS; i++) assert_int_equal(pthread_join(threads[i], NULL), 0);
  assert_null(clave_device_retain(NULL));
  clave_device_destroy(NULL);
}

/* A device's copy of a program's constants is freed with the last session on the device. The next
 * device, which may have the same address, gets a new copy. */
static void change_devices(const char *name) {
  clave_program *program;
  float image[PIXELS] = {0}, logits[CLASSES], first[CLASSES];
  good(clave_program_load(MNIST, NULL, &program));
  for (int i = 0; i < 3; i++) {
    clave_device *device;
    clave_session *session;
    good(clave_device_open(name, NULL, &device));
    good(clave_session_create(program, device, NULL, &session));
    good(classify(session, image, 1, i ? logits : first));
    if (i) assert_memory_equal(first, logits, sizeof first);
    clave_session_destroy(session);
    clave_device_destroy(device);
  }
  clave_program_destroy(program);
}

/* Runs a check on the CPU backend, and on OpenCL if there is a device. */
static void on_both(void (*check)(const char *device)) {
  check("cpu");
  if (!clave_devices_hint()) check("opencl");
}

static void test_a_program_changes_devices(void **state) {
  (void)state;
  on_both(change_devices);
}

/* Returns true once, after *left calls; no call follows. */
static bool cancel_after(void *left) { return (*(int *)left)-- == 0; }

static void expect_cancelled(clave_status st) {
  assert_non_null(st);
  assert_int_equal(clave_status_code(st), CLAVE_CANCELLED);
  assert_non_null(strstr(clave_status_message(st), "cancelled"));
  clave_status_free(st);
}

/* The next run is right wherever a run is cancelled, also while kernels are built. */
static void cancel_everywhere(const char *name) {
  clave_device *device;
  clave_program *program;
  clave_session *session;
  float image[PIXELS] = {0}, first[CLASSES], logits[CLASSES];
  int left = 1, asked;
  clave_session_options options = {
      .size = sizeof options, .cancel = cancel_after, .cancel_ctx = &left};
  good(clave_device_open(name, NULL, &device));
  good(clave_program_load(MNIST, NULL, &program));
  good(clave_session_create(program, device, &options, &session));
  expect_cancelled(classify(session, image, 1, first));
  left = 1000;
  good(classify(session, image, 1, first));
  left = 1000;
  good(classify(session, image, 1, first)); /* builds nothing */
  asked = 1000 - left;
  assert_true(asked > 3);
  for (int at = 0; at < asked; at++) {
    left = at;
    expect_cancelled(classify(session, image, 1, logits));
    left = 1000;
    good(classify(session, image, 1, logits));
    assert_memory_equal(first, logits, sizeof first);
  }
  clave_session_destroy(session);
  clave_program_destroy(program);
  clave_device_destroy(device);
}

static void test_cancel(void **state) {
  (void)state;
  on_both(cancel_everywhere);
}

static void test_budget(void **state) {
  (void)state;
  clave_device *device;
  clave_program *program;
  clave_session *session;
  float image[PIXELS] = {0}, logits[CLASSES];
  clave_session_options options = {.size = sizeof options, .memory_budget = 10000};
  good(clave_device_open("cpu", NULL, &device));
  good(clave_program_load(MNIST, NULL, &program));
  good(clave_session_create(program, device, &options, &session));
  clave_status st = classify(session, image, 1, logits);
  assert_int_equal(clave_status_code(st), CLAVE_NO_MEMORY);
  assert_non_null(strstr(clave_status_message(st), "arena"));
  clave_status_free(st);
  clave_session_destroy(session);
  clave_program_destroy(program);
  clave_device_destroy(device);
}

/* A transposed and flipped image has the same results as its contiguous copy. */
static void test_strided_input(void **state) {
  (void)state;
  clave_device *device;
  clave_program *program;
  clave_session *session;
  clave_tensor out;
  float stored[PIXELS], image[PIXELS], want[CLASSES];
  good(clave_device_open("cpu", NULL, &device));
  good(clave_program_load(MNIST, NULL, &program));
  good(clave_session_create(program, device, NULL, &session));
  fill_images(stored, 1, 3);
  for (int r = 0; r < 28; r++)
    for (int c = 0; c < 28; c++) image[r * 28 + c] = stored[c * 28 + (27 - r)];
  good(classify(session, image, 1, want));
  clave_tensor in = {.dtype = CLAVE_F32,
                     .rank = 4,
                     .dims = {1, 1, 28, 28},
                     .strides = {0, 0, -1, 28},
                     .data = stored + 27};
  good(clave_session_set_input(session, NULL, 0, &in));
  good(clave_session_run(session, NULL));
  good(clave_session_output(session, NULL, 0, &out));
  assert_memory_equal(out.data, want, sizeof want);
  clave_session_destroy(session);
  clave_program_destroy(program);
  clave_device_destroy(device);
}

static double seconds(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Returns the duration of the longest op in a profile, in seconds. */
static double longest_op(const char *path) {
  double longest = 0;
  char *trace = calloc(1, 1 << 20);
  FILE *file = fopen(path, "r");
  assert_non_null(trace);
  assert_non_null(file);
  assert_true(fread(trace, 1, (1 << 20) - 1, file) > 0);
  fclose(file);
  for (const char *at = trace; (at = strstr(at, "\"dur\""));) {
    double us = strtod(strchr(at, ':') + 1, NULL);
    if (us * 1e-6 > longest) longest = us * 1e-6;
    at++;
  }
  free(trace);
  return longest;
}

/* A profile has the times of the last run alone. */
static void profile_later_runs(const char *spec) {
  clave_device *device;
  clave_program *program;
  clave_session *session;
  clave_session_options options = {.size = sizeof options, .profile = true};
  static float images[PIXELS];
  float logits[CLASSES];
  good(clave_device_open(spec, NULL, &device));
  good(clave_program_load(MNIST, NULL, &program));
  good(clave_session_create(program, device, &options, &session));
  fill_images(images, 1, 3);
  for (int i = 0; i < 3; i++) {
    double start = seconds();
    good(classify(session, images, 1, logits));
    double took = seconds() - start;
    good(clave_session_write_profile(session, "build/later.json"));
    double longest = longest_op("build/later.json");
    assert_true(longest > 0 && longest <= took);
    struct timespec pause = {.tv_nsec = 200000000};
    nanosleep(&pause, NULL);
  }
  clave_session_destroy(session);
  clave_program_destroy(program);
  clave_device_destroy(device);
}

static void test_profiles(void **state) {
  (void)state;
  profile_later_runs("cpu");
  profile_later_runs("opencl");
}

static void test_bad_calls(void **state) {
  (void)state;
  clave_device *device;
  clave_program *program;
  clave_session *session;
  clave_tensor tensor;
  int64_t dims[] = {1, 1, 28, 27};
  float image[PIXELS] = {0};
  clave_tensor narrow = clave_tensor_make(CLAVE_F32, 4, dims, image), half = narrow;
  half.dtype = CLAVE_F16;
  good(clave_device_open("cpu", NULL, &device));
  good(clave_program_load(MNIST, NULL, &program));
  good(clave_session_create(program, device, NULL, &session));
  clave_status st[] = {
      clave_session_run(session, "forward"),
      clave_session_run(session, "backward"),
      clave_session_set_input(session, "forward", 0, &narrow),
      clave_session_set_input(session, "forward", 0, &half),
      clave_session_set_input(session, "forward", 1, &narrow),
      clave_session_output(session, "forward", 0, &tensor),
      clave_session_write_profile(session, "build/never.json"),
  };
  const char *const expected[] = {"not given",
                                  "'forward'",
                                  "27",
                                  "F16",
                                  "has 1 of them",
                                  "has not run",
                                  "without the option `profile`"};
  for (size_t i = 0; i < sizeof st / sizeof *st; i++) {
    assert_int_equal(clave_status_code(st[i]), CLAVE_INVALID);
    if (!strstr(clave_status_message(st[i]), expected[i]))
      fail_msg("%s: no '%s'", clave_status_message(st[i]), expected[i]);
    clave_status_free(st[i]);
  }
  clave_session_destroy(session);
  clave_program_destroy(program);
  clave_device_destroy(device);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_session_outlives_what_made_it),
      cmocka_unit_test(test_threads_cpu),
      cmocka_unit_test(test_threads_opencl),
      cmocka_unit_test(test_device_is_retained),
      cmocka_unit_test(test_a_program_changes_devices),
      cmocka_unit_test(test_cancel),
      cmocka_unit_test(test_budget),
      cmocka_unit_test(test_strided_input),
      cmocka_unit_test(test_profiles),
      cmocka_unit_test(test_bad_calls),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
