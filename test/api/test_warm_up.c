/* Sessions that the CPU backend answers while a device builds their kernels: several at once on one
 * device, what is said of them, what is refused. Run from the project's root. */
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
  opened o;
  good(clave_device_open(spec, &options, &o.device));
  good(clave_program_load(MNIST, NULL, &o.program));
  return o;
}

static void close_mnist(opened *o) {
  clave_program_destroy(o->program);
  clave_device_destroy(o->device);
}

static clave_status classify(clave_session *s, int64_t n, float *logits) {
  static float images[THREADS * PIXELS];
  int64_t dims[] = {n, 1, 28, 28};
  clave_tensor x = clave_tensor_make(CLAVE_F32, 4, dims, images), y;
  clave_status st = clave_session_bind_input(s, "forward", 0, &x);
  if (!st) st = clave_session_run(s, "forward");
  if (!st) st = clave_session_output(s, NULL, 0, &y);
  if (!st) memcpy(logits, y.data, (size_t)n * CLASSES * sizeof *logits);
  return st;
}

/* What sessions that wait give for n + 1 images, on the device and on the CPU backend. */
static float wanted[2][THREADS][THREADS * CLASSES];

static void find_wanted(const opened *on_device) {
  opened o[2] = {*on_device, open_mnist("cpu")};
  for (int i = 0; i < 2; i++) {
    clave_session *s;
    good(clave_session_create(o[i].program, o[i].device, NULL, &s));
    assert_null(clave_session_answered_by(s));
    for (int n = 0; n < THREADS; n++) good(classify(s, n + 1, wanted[i][n]));
    assert_string_equal(clave_session_answered_by(s), i ? "cpu" : "opencl");
    clave_session_destroy(s);
  }
  close_mnist(&o[1]);
}

typedef struct worker {
  const opened *o;
  int number, n_moved;
  const char *wrong;
  clave_status status;
} worker;

/* One run; its bits are those of who answered it. */
static clave_status check_run(worker *w, clave_session *s, bool *by_device) {
  float logits[THREADS * CLASSES];
  int64_t n = 1 + w->number;
  clave_status st = classify(s, n, logits);
  if (st) return st;
  *by_device = strcmp(clave_session_answered_by(s), "cpu") != 0;
  if (memcmp(logits, wanted[!*by_device][n - 1], (size_t)n * CLASSES * sizeof *logits) != 0)
    w->wrong = *by_device ? "the device's answer" : "the CPU backend's answer";
  return NULL;
}

/* Sessions that end at once, after a run, and after they have moved. */
static void *work(void *arg) {
  worker *w = arg;
  for (int i = 0; i < SESSIONS && !w->status; i++) {
    clave_session *s;
    bool by_device = false;
    w->status = clave_session_create(w->o->program, w->o->device, &background, &s);
    int runs = i == 0 ? w->number % 2 : MAX_RUNS;
    for (int k = 0; k < runs && !w->status && !by_device; k++) {
      w->status = check_run(w, s, &by_device);
      (void)usleep(1000);
    }
    w->n_moved += by_device;
    clave_session_destroy(s);
  }
  return NULL;
}

static void test_threads(void **state) {
  (void)state;
  if (clave_devices_hint()) skip();
  opened waits = open_mnist("opencl"), o = open_mnist("opencl"); /* which has built nothing */
  find_wanted(&waits);
  pthread_t threads[THREADS];
  worker w[THREADS] = {{0}};
  for (int i = 0; i < THREADS; i++) {
    w[i] = (worker){.o = &o, .number = i};
    assert_int_equal(pthread_create(&threads[i], NULL, work, &w[i]), 0);
  }
  for (int i = 0; i < THREADS; i++) assert_int_equal(pthread_join(threads[i], NULL), 0);
  for (int i = 0; i < THREADS; i++) {
    good(w[i].status);
    assert_null(w[i].wrong);
    assert_true(w[i].n_moved >= SESSIONS - 1);
  }
  close_mnist(&o);
  close_mnist(&waits);
}

static void test_placement(void **state) {
  (void)state;
  if (clave_devices_hint()) skip();
  opened o = open_mnist("opencl");
  clave_session *s;
  clave_placement *places;
  clave_placement_info info = {.size = sizeof info};
  clave_memory_info memory = {.size = sizeof memory};
  float logits[CLASSES];
  good(clave_session_create(o.program, o.device, &background, &s));
  good(classify(s, 1, logits));
  assert_string_equal(clave_session_answered_by(s), "cpu");
  good(clave_session_placement(s, &places));
  good(clave_placement_get(places, NULL, 0, &info));
  if (strcmp(info.where, "cpu") == 0) {
    assert_string_equal(info.reason, "the device is not ready");
    assert_false(info.supported);
  } else {
    assert_string_equal(info.where, "fused");
  }
  good(clave_session_memory(s, &memory));
  assert_true(memory.constant_bytes > 0);
  assert_true(memory.constant_bytes_in_place > 0);
  assert_true(memory.constant_bytes_in_place <= memory.constant_bytes); /* forms are not */
  clave_placement_destroy(places);
  clave_session_destroy(s);
  close_mnist(&o);
}

/* What would be measured is not the device. */
static void test_tuning_waits(void **state) {
  (void)state;
  if (clave_devices_hint()) skip();
  opened o = open_mnist("opencl");
  clave_session *s;
  float logits[CLASSES];
  const clave_tune_options dry = {.size = sizeof dry, .dry = true};
  good(clave_session_create(o.program, o.device, &background, &s));
  good(classify(s, 1, logits));
  assert_string_equal(clave_session_answered_by(s), "cpu");
  clave_status st = clave_session_tune(s, NULL, &dry, NULL);
  assert_non_null(st);
  assert_non_null(strstr(clave_status_message(st), "(warm_up); it can be tuned from then on"));
  clave_status_free(st);
  for (int i = 0; i < MAX_RUNS && strcmp(clave_session_answered_by(s), "cpu") == 0; i++) {
    (void)usleep(1000);
    good(classify(s, 1, logits));
  }
  good(clave_session_tune(s, NULL, &dry, NULL));
  clave_session_destroy(s);
  close_mnist(&o);
}

static void expect_refused(const char *spec, bool no_fallback, clave_session_options options,
                           const char *says) {
  const clave_device_options device = {.size = sizeof device, .no_fallback = no_fallback};
  opened o = open_mnist("cpu");
  clave_device *d;
  clave_session *s;
  options.size = sizeof options;
  good(clave_device_open(spec, &device, &d));
  clave_status st = clave_session_create(o.program, d, &options, &s);
  assert_int_equal(clave_status_code(st), CLAVE_INVALID);
  assert_null(s);
  if (!strstr(clave_status_message(st), says)) fail_msg("%s", clave_status_message(st));
  clave_status_free(st);
  clave_device_destroy(d);
  close_mnist(&o);
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
  opened o = open_mnist("cpu");
  clave_session *s;
  float logits[CLASSES];
  good(clave_session_create(o.program, o.device, &background, &s));
  for (int i = 0; i < 3; i++) good(classify(s, 1, logits));
  assert_string_equal(clave_session_answered_by(s), "cpu");
  clave_session_destroy(s);
  close_mnist(&o);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_threads),      cmocka_unit_test(test_placement),
      cmocka_unit_test(test_tuning_waits), cmocka_unit_test(test_bad_options),
      cmocka_unit_test(test_cpu),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
