/* Tests several clients of one device: eight threads, each with a session, on one set of weights,
 * with CLAVE_TEST_RUNS runs each (default 30); a forked process; two processes with one kernel
 * cache. Run from the project's root. */
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

/* Fills the k + 1 images of kind k. Images of different kinds differ. */
static void fill_images(float *values, int kind) {
  unsigned seed = (unsigned)kind + 1;
  for (int i = 0; i < (kind + 1) * PIXELS; i++)
    values[i] = (float)(seed = seed * 1664525u + 1013904223u) / 4294967296.0f;
}

static clave_status classify(clave_session *session, float *images, int kind, float *scores) {
  clave_tensor out;
  clave_tensor in = clave_tensor_make(CLAVE_F32, 4, (int64_t[]){kind + 1, 1, 28, 28}, images);
  clave_status st = clave_session_set_input(session, "forward", 0, &in);
  if (!st) st = clave_session_run(session, "forward");
  if (!st) st = clave_session_output(session, NULL, 0, &out);
  if (!st) memcpy(scores, out.data, (size_t)(kind + 1) * CLASSES * sizeof *scores);
  return st;
}

/* ---------------------------------------------------------------- threads */

typedef struct client {
  clave_program *program;
  clave_device *device;
  int runs, number;
  const float (*want)[MOST * CLASSES]; /* expected results of each kind */
  clave_status status;
  int wrong;
} client;

static void *work(void *arg) {
  client *client = arg;
  float images[KINDS][MOST * PIXELS], scores[MOST * CLASSES];
  clave_session *session = NULL;
  for (int k = 0; k < KINDS; k++) fill_images(images[k], k);
  client->status = clave_session_create(client->program, client->device, NULL, &session);
  for (int i = 0; i < client->runs && !client->status; i++) {
    const int kind = (i + client->number) % KINDS;
    client->status = classify(session, images[kind], kind, scores);
    if (!client->status)
      client->wrong += memcmp(scores, client->want[kind], (size_t)(kind + 1) * CLASSES * 4) != 0;
  }
  clave_session_destroy(session);
  return NULL;
}

static void run_clients(const client *how, int runs) {
  pthread_t threads[THREADS];
  client client[THREADS];
  for (int i = 0; i < THREADS; i++) {
    client[i] = *how;
    client[i].number = i;
    client[i].runs = runs;
    assert_int_equal(pthread_create(&threads[i], NULL, work, &client[i]), 0);
  }
  for (int i = 0; i < THREADS; i++) assert_int_equal(pthread_join(threads[i], NULL), 0);
  for (int i = 0; i < THREADS; i++) {
    good(client[i].status);
    assert_int_equal(client[i].wrong, 0);
  }
}

/* Resident memory, in pages. */
static long resident(void) {
  long whole = 0, pages = 0;
  FILE *file = fopen("/proc/self/statm", "r");
  assert_non_null(file);
  assert_int_equal(fscanf(file, "%ld %ld", &whole, &pages), 2);
  (void)fclose(file);
  return pages;
}

static void many_clients(const char *spec) {
  static float want[KINDS][MOST * CLASSES], images[MOST * PIXELS];
  const int runs = count_runs();
  client how = {.want = want};
  clave_session *session;
  good(clave_device_open(spec, NULL, &how.device));
  good(clave_program_load(MNIST, NULL, &how.program));
  good(clave_session_create(how.program, how.device, NULL, &session));
  for (int k = 0; k < KINDS; k++) {
    fill_images(images, k);
    good(classify(session, images, k, want[k]));
  }
  clave_session_destroy(session);
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

/* Returns the line number minus 100 from a child's function if the condition is false. */
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

/* A child's calls on the parent's objects are refused at once; it can open the CPU backend anew. */
static int live_as_child(family *family) {
  const clave_tune_options dry = {.size = sizeof dry, .dry = true};
  float scores[CLASSES];
  clave_session *session = NULL;
  clave_device *device = NULL;
  clave_tensor tensor;
  CHILD_EXPECT(says_forked(clave_session_run(family->session, NULL)));
  CHILD_EXPECT(says_forked(clave_session_output(family->session, NULL, 0, &tensor)));
  CHILD_EXPECT(says_forked(clave_session_reset(family->session)));
  CHILD_EXPECT(says_forked(clave_session_tune(family->session, NULL, &dry, NULL)));
  CHILD_EXPECT(says_forked(clave_session_create(family->program, family->device, NULL, &session)) &&
               !session);
  if (!clave_devices_hint())
    CHILD_EXPECT(says_forked(clave_device_open("opencl", NULL, &device)) && !device);
  clave_session_destroy(family->session);
  clave_device_destroy(family->device);
  clave_device_destroy(family->idle); /* the device's threads do not exist in the child */
  /* ThreadSanitizer does not support threads in a forked process. */
  const clave_device_options alone = {.size = sizeof alone, .n_threads = SANITIZED};
  clave_status st = clave_device_open("cpu", &alone, &device);
  if (!st) st = clave_session_create(family->program, device, NULL, &session);
  if (!st) st = classify(session, family->image, 0, scores);
  CHILD_EXPECT(!st);
  clave_session_destroy(session);
  clave_device_destroy(device);
  return 0;
}

static void fork_after_use(const char *spec) {
  family family;
  float again[CLASSES];
  int how;
  memset(&family, 0, sizeof family);
  fill_images(family.image, 0);
  const clave_device_options four = {.size = sizeof four, .n_threads = 4};
  good(clave_device_open(spec, NULL, &family.device));
  good(clave_device_open(spec, &four, &family.idle));
  good(clave_program_load(MNIST, NULL, &family.program));
  good(clave_session_create(family.program, family.device, NULL, &family.session));
  good(classify(family.session, family.image, 0, family.want));
  const pid_t child = fork();
  if (child == 0) {
    (void)alarm(60);
    _exit(live_as_child(&family));
  }
  assert_int_equal(waitpid(child, &how, 0), child);
  if (!WIFEXITED(how) || WEXITSTATUS(how)) fail_msg("the child ended with %#x", (unsigned)how);
  good(classify(family.session, family.image, 0, again)); /* the parent is not affected */
  assert_memory_equal(again, family.want, sizeof again);
  clave_session_destroy(family.session);
  clave_program_destroy(family.program);
  clave_device_destroy(family.device);
  clave_device_destroy(family.idle);
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
