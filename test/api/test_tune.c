/* Tuning through the public API: what it reports, keeps, stops at, and what counts for whom. Run
 * from the project's root. */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "api/internal.h"
#include "base/file.h"
#include "clave_tune.h"
#include "test/api/expect.h"

#define MNIST "examples/mnist/mnist.clv"
enum { PIXELS = 28 * 28, CLASSES = 10 };

typedef struct bench {
  char folder[64];
  clave_device *device;
  clave_program *program;
  clave_session *session;
  float image[PIXELS];
  uint32_t measured, known, changed, of_one, most; /* most: that `report` lets pass; 0: all */
} bench;

static clave_session *make_session(bench *b) {
  const int64_t dims[4] = {1, 1, 28, 28};
  const clave_tensor image = clave_tensor_make(CLAVE_F32, 4, dims, b->image);
  clave_session *s;
  good(clave_session_create(b->program, b->device, NULL, &s));
  good(clave_session_set_input(s, "forward", 0, &image));
  return s;
}

static void open_device(bench *b) {
  const clave_device_options o = {.size = sizeof o, .cache_dir = b->folder};
  good(clave_device_open("cpu", &o, &b->device));
}

/* Reads what is kept. */
static void reopen(bench *b) {
  clave_session_destroy(b->session);
  clave_device_destroy(b->device);
  b->session = NULL;
  b->device = NULL;
  open_device(b);
  b->session = make_session(b);
}

static int setup(void **state) {
  bench *b = calloc(1, sizeof *b);
  strcpy(b->folder, "/tmp/clave_tune_XXXXXX");
  assert_non_null(mkdtemp(b->folder));
  for (int i = 0; i < PIXELS; i++) b->image[i] = (float)(i % 13) / 13;
  open_device(b);
  good(clave_program_load(MNIST, NULL, &b->program));
  b->session = make_session(b);
  *state = b;
  return 0;
}

static int teardown(void **state) {
  bench *b = *state;
  uint64_t bytes;
  clave_session_destroy(b->session);
  clave_program_destroy(b->program);
  clave_device_destroy(b->device);
  (void)folder_remove(b->folder, &bytes);
  free(b);
  return 0;
}

static bool report(void *ctx, const clave_tune_event *e) {
  bench *b = ctx;
  assert_true(e->done <= e->total && e->n_variants > 0);
  b->measured += e->how == CLAVE_TUNE_MEASURED;
  b->known += e->how == CLAVE_TUNE_KNOWN;
  b->changed += strcmp(e->variant, e->by_rule) != 0;
  b->of_one += e->how == CLAVE_TUNE_MEASURED && e->n_variants == 1;
  return !b->most || b->measured < b->most;
}

static clave_tune_result tune(bench *b, clave_tune_options o) {
  clave_tune_result r = {.size = sizeof r};
  o.size = sizeof o;
  o.report = report;
  o.ctx = b;
  b->measured = b->known = b->changed = b->of_one = 0;
  good(clave_session_tune(b->session, "forward", &o, &r));
  return r;
}

static uint32_t count_rows(const bench *b) {
  clave_device_info info = {.size = sizeof info};
  good(clave_device_get_info(b->device, &info));
  return info.n_tuned;
}

static void test_kept(void **state) {
  bench *b = *state;
  b->most = 3;
  clave_tune_result r = tune(b, (clave_tune_options){0});
  assert_int_equal(r.done, 3);
  assert_true(r.total > 3);
  reopen(b); /* kept as they were found */
  assert_int_equal(count_rows(b), 3);
  b->most = 0;
  r = tune(b, (clave_tune_options){0});
  assert_int_equal(b->known, 3);
  assert_int_equal(r.done, r.total);
  assert_int_equal(count_rows(b), r.total);
  reopen(b);
  assert_int_equal(count_rows(b), r.total);
  (void)tune(b, (clave_tune_options){0});
  assert_int_equal(b->known, r.total);
  good(clave_tuning_clear(b->device));
  assert_int_equal(count_rows(b), 0);
  (void)tune(b, (clave_tune_options){.dry = true});
  assert_int_equal(b->known + b->measured, 0);
  (void)tune(b, (clave_tune_options){.unkept = true});
  reopen(b);
  assert_int_equal(count_rows(b), 0);
}

static bool stop_at_once(void *ctx) {
  (void)ctx;
  return true;
}

static void test_stopped(void **state) {
  bench *b = *state;
  clave_tune_options o = {.cancel = stop_at_once};
  assert_int_equal(tune(b, o).done, 0);
  assert_int_equal(count_rows(b), 0);
  clave_tune_result r = tune(b, (clave_tune_options){.budget_s = 1e-6});
  assert_true(r.done < r.total);
  o = (clave_tune_options){.size = sizeof o, .budget_s = -1};
  expect_invalid(clave_session_tune(b->session, "forward", &o, NULL), "a budget of -1 seconds");
  o.budget_s = 0;
  expect_invalid(clave_session_tune(b->session, "backward", &o, NULL), "no method 'backward'");
  expect_invalid(clave_tuning_put(b->device, "", "k", "v"), "printable ASCII");
  clave_tuning_row row = {.size = sizeof row};
  expect_invalid(clave_tuning_get(b->device, 0, &row), "row 0 of a tuning table with 0");
}

/* A session made before goes on with what it has; one made after has its own executable. */
static void test_who_has_it(void **state) {
  bench *b = *state;
  clave_session *same = make_session(b);
  assert_ptr_equal(same->x, b->session->x);
  good(clave_tuning_put(b->device, "threads", "*", "1"));
  clave_session *after = make_session(b);
  assert_ptr_not_equal(after->x, b->session->x);
  good(clave_session_run(after, "forward"));
  good(clave_session_run(b->session, "forward"));
  clave_tensor x, y;
  good(clave_session_output(after, "forward", 0, &x));
  good(clave_session_output(b->session, "forward", 0, &y));
  assert_memory_equal(x.data, y.data, CLASSES * sizeof(float));
  clave_session_destroy(same);
  clave_session_destroy(after);
}

/* ---------------------------------------------------------------- wrong variants */

static const backend_vtable *real;
static struct {
  const recording *r;
  uint32_t slot;
  bool rounds_apart;
} wrong[64];
static int n_wrong;
static bool does_nothing; /* a wrong variant; else it gives one bit that is wrong: the last one, or,
                           of a family whose last bits may differ, one of the exponent */

static clave_status record_wrong(backend *b, const node *n, bool fast, recording **out) {
  TRY(real->record(b, n, fast, out));
  const variant_choices *c = n->choices;
  for (int i = 0; c && c->first && i < c->n; i++) {
    if (c->items[i].taken == c->items[i].by_rule || n_wrong == 64) continue;
    wrong[n_wrong].r = *out;
    wrong[n_wrong].rounds_apart = c->items[i].rounds_apart;
    wrong[n_wrong++].slot = first_slot(n->instruction, true);
    break;
  }
  return NULL;
}

static clave_status run_wrong(stream *s, const recording *r, void **state, const run_operands *o,
                              uint32_t number) {
  for (int i = 0; i < n_wrong && does_nothing; i++)
    if (wrong[i].r == r) return NULL;
  TRY(real->run(s, r, state, o, number));
  for (int i = 0; i < n_wrong; i++) {
    unsigned char first; /* byte of a result */
    if (wrong[i].r != r) continue;
    const bound_tensor *t = &o->tensors[wrong[i].slot];
    const size_t at = t->buffer_offset + (wrong[i].rounds_apart ? sizeof(float) - 1 : 0);
    TRY(real->read(s, t->buf, at, &first, 1));
    first ^= wrong[i].rounds_apart ? 0x40 : 1;
    TRY(real->write(s, t->buf, at, &first, 1));
    break;
  }
  return NULL;
}

static void forget_wrong(backend *b, recording *r) {
  for (int i = 0; i < n_wrong; i++)
    if (wrong[i].r == r) wrong[i--] = wrong[--n_wrong];
  real->recording_destroy(b, r);
}

/* All variants but the rule's are wrong: none of them is measured. */
static void tune_wrong(bench *b) {
  backend *cpu = b->device->set.backends[0];
  real = cpu->vt;
  backend_vtable broken = *real;
  broken.record = record_wrong;
  broken.run = run_wrong;
  broken.recording_destroy = forget_wrong;
  cpu->vt = &broken;
  clave_tune_result r = tune(b, (clave_tune_options){.again = true});
  cpu->vt = real;
  assert_int_equal(r.done, r.total);
  assert_int_equal(b->of_one, b->measured);
  assert_int_equal(b->changed, 0);
}

static void test_wrong_variants(void **state) {
  does_nothing = false;
  tune_wrong(*state);
  does_nothing = true;
  tune_wrong(*state);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(test_kept, setup, teardown),
      cmocka_unit_test_setup_teardown(test_stopped, setup, teardown),
      cmocka_unit_test_setup_teardown(test_who_has_it, setup, teardown),
      cmocka_unit_test_setup_teardown(test_wrong_variants, setup, teardown),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
