/* Several clients of one device: eight threads with a session each, on one set of weights,
 * CLAVE_TEST_RUNS runs each (30 if that is not set); a process that is forked off; two processes on
 * one cache of kernels. Run from the project's root. */
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "clave_tune.h"
#include "test/api/expect.h"

#define MNIST "examples/mnist/mnist.clv"
enum { PIXELS = 28 * 28, CLASSES = 10, THREADS = 8, KINDS = 3, MOST = 4 };

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { SANITIZED = 1 };
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
enum { SANITIZED = 1 };
#else
enum { SANITIZED = 0 };
#endif
#else
enum { SANITIZED = 0 };
#endif

static int count_runs(void) {
  const char *text = getenv("CLAVE_TEST_RUNS");
  return text ? atoi(text) : 30;
}

/* Of kind k: k + 1 images, other ones for each kind. */
static void fill_images(float *x, int kind) {
  unsigned seed = (unsigned)kind + 1;
  for (int i = 0; i < (kind + 1) * PIXELS; i++)
    x[i] = (float)(seed = seed * 1664525u + 1013904223u) / 4294967296.0f;
}

static clave_status classify(clave_session *s, float *images, int kind, float *scores) {
  clave_tensor y;
  clave_tensor x = clave_tensor_make(CLAVE_F32, 4, (int64_t[]){kind + 1, 1, 28, 28}, images);
  clave_status st = clave_session_set_input(s, "forward", 0, &x);
  if (!st) st = clave_session_run(s, "forward");
  if (!st) st = clave_session_output(s, NULL, 0, &y);
  if (!st) memcpy(scores, y.data, (size_t)(kind + 1) * CLASSES * sizeof *scores);
  return st;
}

/* ---------------------------------------------------------------- threads */

typedef struct client {
  clave_program *program;
  clave_device *device;
  int runs, number;
  const float (*want)[MOST * CLASSES]; /* of each kind */
  clave_status status;
  int wrong;
} client;

static void *work(void *arg) {
  client *c = arg;
  float images[KINDS][MOST * PIXELS], scores[MOST * CLASSES];
  clave_session *s = NULL;
  for (int k = 0; k < KINDS; k++) fill_images(images[k], k);
  c->status = clave_session_create(c->program, c->device, NULL, &s);
  for (int i = 0; i < c->runs && !c->status; i++) {
    const int kind = (i + c->number) % KINDS;
    c->status = classify(s, images[kind], kind, scores);
    if (!c->status)
      c->wrong += memcmp(scores, c->want[kind], (size_t)(kind + 1) * CLASSES * 4) != 0;
  }
  clave_session_destroy(s);
  return NULL;
}

static void run_clients(const client *how, int runs) {
  pthread_t threads[THREADS];
  client c[THREADS];
  for (int i = 0; i < THREADS; i++) {
    c[i] = *how;
    c[i].number = i;
    c[i].runs = runs;
    assert_int_equal(pthread_create(&threads[i], NULL, work, &c[i]), 0);
  }
  for (int i = 0; i < THREADS; i++) assert_int_equal(pthread_join(threads[i], NULL), 0);
  for (int i = 0; i < THREADS; i++) {
    good(c[i].status);
    assert_int_equal(c[i].wrong, 0);
  }
}

/* Resident memory, in pages. */
static long resident(void) {
  long whole = 0, pages = 0;
  FILE *f = fopen("/proc/self/statm", "r");
  assert_non_null(f);
  assert_int_equal(fscanf(f, "%ld %ld", &whole, &pages), 2);
  (void)fclose(f);
  return pages;
}

static void many_clients(const char *spec) {
  static float want[KINDS][MOST * CLASSES], images[MOST * PIXELS];
  const int runs = count_runs();
  client how = {.want = want};
  clave_session *s;
  good(clave_device_open(spec, NULL, &how.device));
  good(clave_program_load(MNIST, NULL, &how.program));
  good(clave_session_create(how.program, how.device, NULL, &s));
  for (int k = 0; k < KINDS; k++) {
    fill_images(images, k);
    good(classify(s, images, k, want[k]));
  }
  clave_session_destroy(s);
  run_clients(&how, runs / 2);
  const long before = resident();
  run_clients(&how, runs);
  if (!SANITIZED && resident() - before > (8L << 20) / sysconf(_SC_PAGESIZE))
    fail_msg("%ld pages, %ld at first", resident(), before);
  clave_program_destroy(how.program);
  clave_device_destroy(how.device);
}

static void test_clients_cpu(void **state) {
  (void)state;
  many_clients("cpu");
}

static void test_clients_opencl(void **state) {
  (void)state;
  if (clave_devices_hint()) skip();
  many_clients("opencl");
}

/* ---------------------------------------------------------------- forks */

/* What a child has to say for itself: 0, or the line where it was wrong. */
#define CHILD_EXPECT(condition) \
  if (!(condition)) return __LINE__ - 100

static bool says_forked(clave_status st) {
  const bool says =
      clave_status_code(st) == CLAVE_INVALID && strstr(clave_status_message(st), "forked") != NULL;
  clave_status_free(st);
  return says;
}

typedef struct family {
  clave_device *device, *idle; /* no session is on idle */
  clave_program *program;
  clave_session *session;
  float image[PIXELS], want[CLASSES];
} family;

/* Everything of before is refused, nothing waits; the CPU backend is there anew. */
static int live_as_child(family *f) {
  const clave_tune_options dry = {.size = sizeof dry, .dry = true};
  float scores[CLASSES];
  clave_session *s = NULL;
  clave_device *d = NULL;
  clave_tensor y;
  CHILD_EXPECT(says_forked(clave_session_run(f->session, NULL)));
  CHILD_EXPECT(says_forked(clave_session_output(f->session, NULL, 0, &y)));
  CHILD_EXPECT(says_forked(clave_session_reset(f->session)));
  CHILD_EXPECT(says_forked(clave_session_tune(f->session, NULL, &dry, NULL)));
  CHILD_EXPECT(says_forked(clave_session_create(f->program, f->device, NULL, &s)) && !s);
  if (!clave_devices_hint()) CHILD_EXPECT(says_forked(clave_device_open("opencl", NULL, &d)) && !d);
  clave_session_destroy(f->session);
  clave_device_destroy(f->device);
  clave_device_destroy(f->idle); /* whose threads are not there */
  /* ThreadSanitizer knows no threads in a forked process. */
  const clave_device_options alone = {.size = sizeof alone, .n_threads = SANITIZED};
  clave_status st = clave_device_open("cpu", &alone, &d);
  if (!st) st = clave_session_create(f->program, d, NULL, &s);
  if (!st) st = classify(s, f->image, 0, scores);
  CHILD_EXPECT(!st);
  clave_session_destroy(s);
  clave_device_destroy(d);
  return 0;
}

static void fork_after_use(const char *spec) {
  family f;
  float again[CLASSES];
  int how;
  memset(&f, 0, sizeof f);
  fill_images(f.image, 0);
  const clave_device_options four = {.size = sizeof four, .n_threads = 4};
  good(clave_device_open(spec, NULL, &f.device));
  good(clave_device_open(spec, &four, &f.idle));
  good(clave_program_load(MNIST, NULL, &f.program));
  good(clave_session_create(f.program, f.device, NULL, &f.session));
  good(classify(f.session, f.image, 0, f.want));
  const pid_t child = fork();
  if (child == 0) {
    (void)alarm(60);
    _exit(live_as_child(&f));
  }
  assert_int_equal(waitpid(child, &how, 0), child);
  if (!WIFEXITED(how) || WEXITSTATUS(how)) fail_msg("the child ended with %#x", (unsigned)how);
  good(classify(f.session, f.image, 0, again)); /* the parent notices nothing */
  assert_memory_equal(again, f.want, sizeof again);
  clave_session_destroy(f.session);
  clave_program_destroy(f.program);
  clave_device_destroy(f.device);
  clave_device_destroy(f.idle);
}

static void test_fork_cpu(void **state) {
  (void)state;
  fork_after_use("cpu");
}

static void test_fork_opencl(void **state) {
  (void)state;
  if (clave_devices_hint()) skip();
  fork_after_use("opencl");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_clients_cpu),
      cmocka_unit_test(test_clients_opencl),
      cmocka_unit_test(test_fork_cpu),
      cmocka_unit_test(test_fork_opencl),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
