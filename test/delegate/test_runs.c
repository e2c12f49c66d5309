/* Tests runs that are submitted, waited for, cancelled and reported to a profiler, state, and
 * threads on one instance. */
#include <pthread.h>
#include <sys/wait.h>

#include "test/delegate/mnist.h"

#define TINYLM "examples/tinylm/tinylm.clv"

/* ---------------------------------------------------------------- submitted runs */

enum { MAX_SECONDS = 240 };

/* The state of an event callback that holds a run until the test releases it. */
typedef struct latch {
  clave_delegate_handle instance;
  pthread_mutex_t m;
  pthread_cond_t changed;
  bool inside, go;
  int nodes, runs, done;
  char inner[200]; /* message of a call of the instance from within the callback */
} latch;

static bool hold_run(void *ctx, uint32_t node, uint32_t slot, const clave_tensor *value) {
  latch *latch = ctx;
  (void)slot;
  (void)value;
  if (node != 0) return true;
  clave_status st = d.execute(latch->instance, NULL);
  snprintf(latch->inner, sizeof latch->inner, "%s", d.status_message(st));
  d.status_free(st);
  pthread_mutex_lock(&latch->m);
  latch->inside = true;
  pthread_cond_broadcast(&latch->changed);
  while (!latch->go) pthread_cond_wait(&latch->changed, &latch->m);
  pthread_mutex_unlock(&latch->m);
  return true;
}

static void until_inside(latch *latch) {
  pthread_mutex_lock(&latch->m);
  while (!latch->inside) pthread_cond_wait(&latch->changed, &latch->m);
  pthread_mutex_unlock(&latch->m);
}

static void let_go(latch *latch) {
  pthread_mutex_lock(&latch->m);
  latch->go = true;
  pthread_cond_broadcast(&latch->changed);
  pthread_mutex_unlock(&latch->m);
}

static void on_done(void *ctx) {
  latch *latch = ctx;
  bool over;
  expect(d.wait(latch->instance, -1, &over), CLAVE_INVALID, "cannot wait for itself");
  latch->done++;
}

static void test_submit(void **state) {
  (void)state;
  static float image[PIXELS], scores[CLASSES], want[CLASSES];
  latch latch = {.m = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};
  bool over;
  (void)alarm(MAX_SECONDS); /* a wait that nobody ends */
  clave_delegate_handle in = latch.instance = new_mnist();
  fill(image, PIXELS, 5);
  classify_plainly(image, 1, want);
  bind(in, image, 1, scores);
  expect(d.wait(in, 0, &over), CLAVE_INVALID, "no run was submitted");
  fine(d.observe(in, hold_run, &latch));
  fine(d.submit(in, "forward", on_done, &latch));
  until_inside(&latch);
  fine(d.wait(in, 1, &over));
  assert_false(over);
  expect(d.execute(in, NULL), CLAVE_INVALID, "wait for it first");
  expect(d.submit(in, NULL, NULL, NULL), CLAVE_INVALID, "wait for it first");
  expect(d.bind_output(in, NULL, 0, NULL), CLAVE_INVALID, "wait for it first");
  expect(d.destroy(in), CLAVE_INVALID, "wait for it first");
  assert_non_null(strstr(latch.inner, "wait for it first"));
  let_go(&latch);
  fine(d.wait(in, -1, &over));
  assert_true(over);
  assert_int_equal(latch.done, 1);
  assert_memory_equal(scores, want, sizeof want);
  expect(d.wait(in, 0, &over), CLAVE_INVALID, "no run was submitted");
  fine(d.observe(in, NULL, NULL));
  fine(d.submit(in, "no such method", NULL, NULL));
  expect(d.wait(in, -1, &over), CLAVE_INVALID, "no such method");
  assert_true(over);
  for (int i = 0; i < 20; i++) {
    memset(scores, 0, sizeof scores);
    fine(d.submit(in, NULL, NULL, NULL));
    fine(d.wait(in, -1, &over));
    assert_memory_equal(scores, want, sizeof want);
  }
  fine(d.submit(in, NULL, NULL, NULL));
  fine(d.wait(in, -1, &over));
  fine(d.destroy(in));
  (void)alarm(0);
}

static void test_cancel(void **state) {
  (void)state;
  static float image[PIXELS], scores[CLASSES];
  latch latch = {.m = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};
  bool over;
  clave_delegate_handle in = latch.instance = new_mnist();
  bind(in, image, 1, scores);
  fine(d.cancel(in)); /* nothing is under way */
  fine(d.execute(in, NULL));
  fine(d.observe(in, hold_run, &latch));
  fine(d.submit(in, NULL, NULL, NULL));
  until_inside(&latch);
  fine(d.cancel(in));
  let_go(&latch);
  clave_status st = d.wait(in, -1, &over);
  assert_true(over && d.status_code(st) == CLAVE_CANCELLED);
  assert_non_null(strstr(d.status_message(st), "cancelled"));
  d.status_free(st);
  fine(d.observe(in, NULL, NULL));
  expect_scores(in);
  fine(d.destroy(in));
}

/* ---------------------------------------------------------------- events, state */

static void count_event(void *ctx, const clave_delegate_event *event) {
  latch *latch = ctx;
  assert_true(event->size == sizeof *event && event->end_ns >= event->start_ns && *event->device);
  if (event->kind == CLAVE_DELEGATE_EVENT_NODE) latch->nodes++;
  if (event->kind != CLAVE_DELEGATE_EVENT_RUN) return;
  latch->runs++;
  assert_string_equal(event->name, "forward");
}

static void test_events(void **state) {
  (void)state;
  static float image[PIXELS], scores[CLASSES];
  size_t size;
  int released = 0;
  char *bytes = read_file(MNIST, &size);
  clave_delegate_handle p = load_clv(bytes, size, true, &released), in;
  free(bytes);
  for (int nodes = 0; nodes < 2; nodes++) {
    latch latch = {0};
    const clave_delegate_instance_options options = {
        .size = sizeof options, .event = count_event, .event_ctx = &latch, .node_events = nodes};
    fine(d.create(p, device, &options, &in));
    bind(in, image, 1, scores);
    for (int i = 0; i < 3; i++) fine(d.execute(in, i ? "forward" : NULL));
    expect(d.execute(in, "backward"), CLAVE_INVALID, "unknown method");
    assert_int_equal(latch.runs, 3); /* one that failed tells nothing */
    assert_true(nodes ? latch.nodes >= 3 * 7 && latch.nodes <= 3 * 15 : latch.nodes == 0);
    fine(d.destroy(in));
  }
  fine(d.unload(p));
}

static void step_lm(clave_delegate_handle in, int64_t token, int64_t position, float *last) {
  clave_tensor logits;
  const clave_tensor ids = clave_tensor_make(CLAVE_I64, 2, (int64_t[]){1, 1}, &token);
  const clave_tensor where = clave_tensor_make(CLAVE_I64, 0, NULL, &position);
  fine(d.set_input(in, NULL, 0, &ids));
  fine(d.set_input(in, NULL, 1, &where));
  fine(d.execute(in, NULL));
  fine(d.result(in, NULL, 0, &logits));
  memcpy(last, logits.data, 16);
}

/* A cache is state of an instance, which is reset, copied, read and written. */
static void test_state(void **state) {
  (void)state;
  size_t size;
  int released = 0;
  char *bytes = read_file(TINYLM, &size);
  clave_delegate_handle p = load_clv(bytes, size, true, &released);
  clave_delegate_handle a = create(p), b = create(p), other = new_mnist();
  float first_a[4], second_a[4], second_b[4], again[4];
  clave_tensor_info info = {.size = sizeof info};
  free(bytes);
  fine(d.state(p, 0, &info));
  step_lm(a, 5, 0, first_a);
  fine(d.copy_state(b, a));
  step_lm(a, 9, 1, second_a);
  step_lm(b, 9, 1, second_b);
  assert_memory_equal(second_a, second_b, sizeof second_a);
  fine(d.copy_state(a, a));
  expect(d.copy_state(a, other), CLAVE_INVALID, "of the same program");
  fine(d.reset(a));
  step_lm(a, 9, 1, again); /* sees no first token */
  assert_memory_not_equal(again, second_a, sizeof again);
  fine(d.reset(a));
  step_lm(a, 5, 0, again);
  assert_memory_equal(again, first_a, sizeof again);
  expect(d.write_state(a, 0, NULL, 4), CLAVE_INVALID, "data is NULL");
  expect(d.read_state(a, 0, again, 3), CLAVE_INVALID, "3");
  fine(d.destroy(a));
  fine(d.destroy(b));
  fine(d.destroy(other));
  fine(d.unload(p));
}

/* ---------------------------------------------------------------- threads */

typedef struct racer {
  clave_delegate_handle instance;
  int good, refused;
} racer;

static void *race(void *arg) {
  racer *racer = arg;
  for (int i = 0; i < 200; i++) {
    clave_status st = d.execute(racer->instance, NULL);
    if (!st) racer->good++;
    if (st && strstr(d.status_message(st), "one thread at a time")) racer->refused++;
    d.status_free(st);
  }
  return NULL;
}

/* If two threads use one instance, each call runs or is refused, and the results stay right. */
static void test_two_threads_on_one_instance(void **state) {
  (void)state;
  static float image[PIXELS], scores[CLASSES], want[CLASSES];
  racer racer[3] = {{0}};
  pthread_t t[3];
  clave_delegate_handle in = new_mnist();
  fill(image, PIXELS, 8);
  classify_plainly(image, 1, want);
  bind(in, image, 1, scores);
  for (int i = 0; i < 3; i++) {
    racer[i].instance = in;
    assert_int_equal(pthread_create(&t[i], NULL, race, &racer[i]), 0);
  }
  for (int i = 0; i < 3; i++) {
    assert_int_equal(pthread_join(t[i], NULL), 0);
    assert_int_equal(racer[i].good + racer[i].refused, 200);
  }
  assert_memory_equal(scores, want, sizeof want);
  fine(d.destroy(in));
}

/* In a forked child, which has no thread for it, the instance refuses all calls without waiting;
 * the parent's continues. */
static int live_as_child(clave_delegate_handle in) {
  bool over;
  static const char word[] = "forked";
  clave_status st[] = {d.execute(in, NULL), d.submit(in, NULL, NULL, NULL), d.reset(in)};
  for (unsigned i = 0; i < sizeof st / sizeof *st; i++)
    if (d.status_code(st[i]) != CLAVE_INVALID || !strstr(d.status_message(st[i]), word))
      return (int)i + 1;
  if (d.status_code(d.wait(in, -1, &over)) != CLAVE_INVALID) return 10;
  return d.destroy(in) || d.close(device) ? 11 : 0;
}

static void test_fork(void **state) {
  (void)state;
  static float image[PIXELS], scores[CLASSES];
  bool over;
  int how;
  clave_delegate_handle in = new_mnist();
  bind(in, image, 1, scores);
  fine(d.submit(in, NULL, NULL, NULL));
  fine(d.wait(in, -1, &over));
  const pid_t child = fork();
  if (child == 0) {
    (void)alarm(MAX_SECONDS);
    _exit(live_as_child(in));
  }
  assert_int_equal(waitpid(child, &how, 0), child);
  assert_true(WIFEXITED(how));
  assert_int_equal(WEXITSTATUS(how), 0);
  expect_scores(in);
  fine(d.destroy(in));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_submit),
      cmocka_unit_test(test_cancel),
      cmocka_unit_test(test_events),
      cmocka_unit_test(test_state),
      cmocka_unit_test(test_two_threads_on_one_instance),
      cmocka_unit_test(test_fork),
  };
  return cmocka_run_group_tests(tests, open_all, close_all);
}
