/* Tests sessions that the CPU backend runs while a device builds their kernels: several at once on
 * one device, their notes, and refused calls. Run from the project's root. */
#include <cmocka.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "clave.h"
#include "clave_tune.h"

#define MNIST "examples/mnist/mnist.clv"
enum { PIXELS = 28 * 28, CLASSES = 10, THREADS = 4, MAX_RUNS = 60000, SESSIONS = 3 };

static void good(clave_status st) {
  if (st) print_error("%s\n", clave_status_message(st));
  assert_null(st);
}

static const clave_session_options background = {.size = sizeof background,
                                                 .warm_up = CLAVE_WARM_UP_BACKGROUND};

typedef struct opened {
  clave_device *device;
  clave_program *program;
} opened;

static opened open_mnist(const char *spec) {
  const clave_device_options options = {.size = sizeof options, .cache_dir = "off"};
  opened opened;
  good(clave_device_open(spec, &options, &opened.device));
  good(clave_program_load(MNIST, NULL, &opened.program));
  return opened;
}

static void close_mnist(opened *opened) {
  clave_program_destroy(opened->program);
  clave_device_destroy(opened->device);
}

static clave_status classify(clave_session *session, int64_t n, float *logits) {
  static float images[THREADS * PIXELS];
  int64_t dims[] = {n, 1, 28, 28};
  clave_tensor in = clave_tensor_make(CLAVE_F32, 4, dims, images), out;
  clave_status st = clave_session_bind_input(session, "forward", 0, &in);
  if (!st) st = clave_session_run(session, "forward");
  if (!st) st = clave_session_output(session, NULL, 0, &out);
  if (!st) memcpy(logits, out.data, (size_t)n * CLASSES * sizeof *logits);
  return st;
}

/* Expected logits of 1 to THREADS images, from the device [0] and from the CPU backend [1]. */
static float wanted[2][THREADS][THREADS * CLASSES];

static void find_wanted(const opened *on_device) {
  opened opened[2] = {*on_device, open_mnist("cpu")};
  for (int i = 0; i < 2; i++) {
    clave_session *session;
    good(clave_session_create(opened[i].program, opened[i].device, NULL, &session));
    assert_null(clave_session_answered_by(session));
    for (int n = 0; n < THREADS; n++) good(classify(session, n + 1, wanted[i][n]));
    assert_string_equal(clave_session_answered_by(session), i ? "cpu" : "opencl");
    clave_session_destroy(session);
  }
  close_mnist(&opened[1]);
}

typedef struct worker {
  const opened *o;
  int number, n_moved;
  const char *wrong;
  clave_status status;
} worker;

/* Runs once. The result must have the bits of the backend that ran it. */
static clave_status check_run(worker *worker, clave_session *session, bool *by_device) {
  float logits[THREADS * CLASSES];
  int64_t n = 1 + worker->number;
  clave_status st = classify(session, n, logits);
  if (st) return st;
  *by_device = strcmp(clave_session_answered_by(session), "cpu") != 0;
  if (memcmp(logits, wanted[!*by_device][n - 1], (size_t)n * CLASSES * sizeof *logits) != 0)
    worker->wrong = *by_device ? "the device's answer" : "the CPU backend's answer";
  return NULL;
}

/* Destroys sessions at once, after a run, and after they have moved to the device. */
static void *work(void *arg) {
  worker *worker = arg;
  for (int i = 0; i < SESSIONS && !worker->status; i++) {
    clave_session *session;
    bool by_device = false;
    worker->status =
        clave_session_create(worker->o->program, worker->o->device, &background, &session);
    int runs = i == 0 ? worker->number % 2 : MAX_RUNS;
    for (int k = 0; k < runs && !worker->status && !by_device; k++) {
      worker->status = check_run(worker, session, &by_device);
      (void)usleep(1000);
    }
    worker->n_moved += by_device;
    clave_session_destroy(session);
  }
  return NULL;
}

static void test_threads(void **state) {
  (void)state;
  if (clave_devices_hint()) skip();
  opened waits = open_mnist("opencl"), opened = open_mnist("opencl"); /* which has built nothing */
  find_wanted(&waits);
  pthread_t threads[THREADS];
  worker helper[THREADS] = {{0}};
  for (int i = 0; i < THREADS; i++) {
    helper[i] = (worker){.o = &opened, .number = i};
    assert_int_equal(pthread_create(&threads[i], NULL, work, &helper[i]), 0);
  }
  for (int i = 0; i < THREADS; i++) assert_int_equal(pthread_join(threads[i], NULL), 0);
  for (int i = 0; i < THREADS; i++) {
    good(helper[i].status);
    assert_null(helper[i].wrong);
    assert_true(helper[i].n_moved >= SESSIONS - 1);
  }
  close_mnist(&opened);
  close_mnist(&waits);
}

static void test_placement(void **state) {
  (void)state;
  if (clave_devices_hint()) skip();
  opened opened = open_mnist("opencl");
  clave_session *session;
  clave_placement *places;
  clave_placement_info info = {.size = sizeof info};
  clave_memory_info memory = {.size = sizeof memory};
  float logits[CLASSES];
  good(clave_session_create(opened.program, opened.device, &background, &session));
  good(classify(session, 1, logits));
  assert_string_equal(clave_session_answered_by(session), "cpu");
  good(clave_session_placement(session, &places));
  good(clave_placement_get(places, NULL, 0, &info));
  if (strcmp(info.where, "cpu") == 0) {
    assert_string_equal(info.reason, "the device is not ready");
    assert_false(info.supported);
  } else {
    assert_string_equal(info.where, "fused");
  }
  good(clave_session_memory(session, &memory));
  assert_true(memory.constant_bytes > 0);
  assert_true(memory.constant_bytes_in_place > 0);
  assert_true(memory.constant_bytes_in_place <= memory.constant_bytes); /* packed weights are not */
  clave_placement_destroy(places);
  clave_session_destroy(session);
  close_mnist(&opened);
}

/* Tuning is refused while the CPU backend runs the session, because it would not measure the
 * device. */
static void test_tuning_waits(void **state) {
  (void)state;
  if (clave_devices_hint()) skip();
  opened opened = open_mnist("opencl");
  clave_session *session;
  float logits[CLASSES];
  const clave_tune_options dry = {.size = sizeof dry, .dry = true};
  good(clave_session_create(opened.program, opened.device, &background, &session));
  good(classify(session, 1, logits));
  assert_string_equal(clave_session_answered_by(session), "cpu");
  clave_status st = clave_session_tune(session, NULL, &dry, NULL);
  assert_non_null(st);
  assert_non_null(
      strstr(clave_status_message(st), "(warm_up); the session can be tuned after that"));
  clave_status_free(st);
  for (int i = 0; i < MAX_RUNS && strcmp(clave_session_answered_by(session), "cpu") == 0; i++) {
    (void)usleep(1000);
    good(classify(session, 1, logits));
  }
  good(clave_session_tune(session, NULL, &dry, NULL));
  clave_session_destroy(session);
  close_mnist(&opened);
}

static void expect_refused(const char *spec, bool no_fallback, clave_session_options options,
                           const char *says) {
  const clave_device_options device = {.size = sizeof device, .no_fallback = no_fallback};
  opened opened = open_mnist("cpu");
  clave_device *d;
  clave_session *session;
  options.size = sizeof options;
  good(clave_device_open(spec, &device, &d));
  clave_status st = clave_session_create(opened.program, d, &options, &session);
  assert_int_equal(clave_status_code(st), CLAVE_INVALID);
  assert_null(session);
  if (!strstr(clave_status_message(st), says)) fail_msg("%s", clave_status_message(st));
  clave_status_free(st);
  clave_device_destroy(d);
  close_mnist(&opened);
}

static void test_bad_options(void **state) {
  (void)state;
  const clave_session_options soon = {.warm_up = (clave_warm_up)2},
                              never = {.warm_up = (clave_warm_up)-1},
                              both = {.fast = true, .strict = 1};
  expect_refused("cpu", false, soon, "warm_up: expected 0 (wait) or 1 (background), got 2");
  expect_refused("cpu", false, never, "background), got -1");
  expect_refused("cpu", true, background, "the device was opened without fallback");
  expect_refused("cpu", false, both, "strict and fast: expected at most one of them, got both");
}

/* The CPU backend has nothing to wait for. */
static void test_cpu(void **state) {
  (void)state;
  opened opened = open_mnist("cpu");
  clave_session *session;
  float logits[CLASSES];
  good(clave_session_create(opened.program, opened.device, &background, &session));
  for (int i = 0; i < 3; i++) good(classify(session, 1, logits));
  assert_string_equal(clave_session_answered_by(session), "cpu");
  clave_session_destroy(session);
  close_mnist(&opened);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_threads),      cmocka_unit_test(test_placement),
      cmocka_unit_test(test_tuning_waits), cmocka_unit_test(test_bad_options),
      cmocka_unit_test(test_cpu),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
