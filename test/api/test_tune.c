/* Tests tuning through the public API: its reports, the table that it keeps, cancellation, and the
 * sessions that use the table. Run from the project's root. */
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
  uint32_t measured, known, changed, of_one, most; /* most: number of calls of `report` before it
                                                    * cancels; 0: never */
} bench;

static clave_session *make_session(bench *bench) {
  const int64_t dims[4] = {1, 1, 28, 28};
  const clave_tensor image = clave_tensor_make(CLAVE_F32, 4, dims, bench->image);
  clave_session *session;
  good(clave_session_create(bench->program, bench->device, NULL, &session));
  good(clave_session_set_input(session, "forward", 0, &image));
  return session;
}

static void open_device(bench *bench) {
  const clave_device_options options = {.size = sizeof options, .cache_dir = bench->folder};
  good(clave_device_open("cpu", &options, &bench->device));
}

/* Reads the stored table. */
static void reopen(bench *bench) {
  clave_session_destroy(bench->session);
  clave_device_destroy(bench->device);
  bench->session = NULL;
  bench->device = NULL;
  open_device(bench);
  bench->session = make_session(bench);
}

static int setup(void **state) {
  bench *bench = calloc(1, sizeof *bench);
  strcpy(bench->folder, "/tmp/clave_tune_XXXXXX");
  assert_non_null(mkdtemp(bench->folder));
  for (int i = 0; i < PIXELS; i++) bench->image[i] = (float)(i % 13) / 13;
  open_device(bench);
  good(clave_program_load(MNIST, NULL, &bench->program));
  bench->session = make_session(bench);
  *state = bench;
  return 0;
}

static int teardown(void **state) {
  bench *bench = *state;
  uint64_t bytes;
  clave_session_destroy(bench->session);
  clave_program_destroy(bench->program);
  clave_device_destroy(bench->device);
  (void)folder_remove(bench->folder, &bytes);
  free(bench);
  return 0;
}

static bool report(void *ctx, const clave_tune_event *event) {
  bench *bench = ctx;
  assert_true(event->done <= event->total && event->n_variants > 0);
  bench->measured += event->how == CLAVE_TUNE_MEASURED;
  bench->known += event->how == CLAVE_TUNE_KNOWN;
  bench->changed += strcmp(event->variant, event->by_rule) != 0;
  bench->of_one += event->how == CLAVE_TUNE_MEASURED && event->n_variants == 1;
  return !bench->most || bench->measured < bench->most;
}

static clave_tune_result tune(bench *bench, clave_tune_options options) {
  clave_tune_result result = {.size = sizeof result};
  options.size = sizeof options;
  options.report = report;
  options.ctx = bench;
  bench->measured = bench->known = bench->changed = bench->of_one = 0;
  good(clave_session_tune(bench->session, "forward", &options, &result));
  return result;
}

static uint32_t count_rows(const bench *bench) {
  clave_device_info info = {.size = sizeof info};
  good(clave_device_get_info(bench->device, &info));
  return info.n_tuned;
}

static void test_kept(void **state) {
  bench *bench = *state;
  bench->most = 3;
  clave_tune_result result = tune(bench, (clave_tune_options){0});
  assert_int_equal(result.done, 3);
  assert_true(result.total > 3);
  reopen(bench); /* kept as they were found */
  assert_int_equal(count_rows(bench), 3);
  bench->most = 0;
  result = tune(bench, (clave_tune_options){0});
  assert_int_equal(bench->known, 3);
  assert_int_equal(result.done, result.total);
  assert_int_equal(count_rows(bench), result.total);
  reopen(bench);
  assert_int_equal(count_rows(bench), result.total);
  (void)tune(bench, (clave_tune_options){0});
  assert_int_equal(bench->known, result.total);
  good(clave_tuning_clear(bench->device));
  assert_int_equal(count_rows(bench), 0);
  (void)tune(bench, (clave_tune_options){.dry = true});
  assert_int_equal(bench->known + bench->measured, 0);
  (void)tune(bench, (clave_tune_options){.unkept = true});
  reopen(bench);
  assert_int_equal(count_rows(bench), 0);
}

static bool stop_at_once(void *ctx) {
  (void)ctx;
  return true;
}

static void test_stopped(void **state) {
  bench *bench = *state;
  clave_tune_options options = {.cancel = stop_at_once};
  assert_int_equal(tune(bench, options).done, 0);
  assert_int_equal(count_rows(bench), 0);
  clave_tune_result result = tune(bench, (clave_tune_options){.budget_s = 1e-6});
  assert_true(result.done < result.total);
  options = (clave_tune_options){.size = sizeof options, .budget_s = -1};
  expect_invalid(clave_session_tune(bench->session, "forward", &options, NULL),
                 "budget_s: expected 0 or more, got -1");
  options.budget_s = 0;
  expect_invalid(clave_session_tune(bench->session, "backward", &options, NULL),
                 "unknown method 'backward'");
  expect_invalid(clave_tuning_put(bench->device, "", "k", "v"), "printable ASCII");
  clave_tuning_row row = {.size = sizeof row};
  expect_invalid(clave_tuning_get(bench->device, 0, &row),
                 "index 0 is out of range: the tuning table has 0 rows");
}

/* An earlier session keeps its kernels; a later one has another executable. */
static void test_who_has_it(void **state) {
  bench *bench = *state;
  clave_session *same = make_session(bench);
  assert_ptr_equal(same->executable, bench->session->executable);
  good(clave_tuning_put(bench->device, "threads", "*", "1"));
  clave_session *after = make_session(bench);
  assert_ptr_not_equal(after->executable, bench->session->executable);
  good(clave_session_run(after, "forward"));
  good(clave_session_run(bench->session, "forward"));
  clave_tensor out_after, out_before;
  good(clave_session_output(after, "forward", 0, &out_after));
  good(clave_session_output(bench->session, "forward", 0, &out_before));
  assert_memory_equal(out_after.data, out_before.data, CLASSES * sizeof(float));
  clave_session_destroy(same);
  clave_session_destroy(after);
}

/* ---------------------------------------------------------------- wrong variants */

static const backend_vtable *real;
static struct {
  const recording *r;
  uint32_t slot;
  bool changes_rounding;
} wrong[64];
static int n_wrong;
static bool does_nothing; /* the wrong variant; else one bit of its result is wrong: the last, or
                             one of the exponent in a family whose last bits may differ */

static clave_status record_wrong(backend *backend, const node *node, bool fast, recording **out) {
  TRY(real->record(backend, node, fast, out));
  const variant_choices *choices = node->choices;
  for (int i = 0; choices && choices->first && i < choices->n; i++) {
    if (choices->items[i].chosen == choices->items[i].by_rule || n_wrong == 64) continue;
    wrong[n_wrong].r = *out;
    wrong[n_wrong].changes_rounding = choices->items[i].changes_rounding;
    wrong[n_wrong++].slot = first_slot(node->instruction, true);
    break;
  }
  return NULL;
}

static clave_status run_wrong(stream *stream, const recording *recording, void **state,
                              const run_operands *operands, uint32_t number) {
  for (int i = 0; i < n_wrong && does_nothing; i++)
    if (wrong[i].r == recording) return NULL;
  TRY(real->run(stream, recording, state, operands, number));
  for (int i = 0; i < n_wrong; i++) {
    unsigned char first; /* byte of a result */
    if (wrong[i].r != recording) continue;
    const bound_tensor *tensor = &operands->tensors[wrong[i].slot];
    const size_t at = tensor->buffer_offset + (wrong[i].changes_rounding ? sizeof(float) - 1 : 0);
    TRY(real->read(stream, tensor->buf, at, &first, 1));
    first ^= wrong[i].changes_rounding ? 0x40 : 1;
    TRY(real->write(stream, tensor->buf, at, &first, 1));
    break;
  }
  return NULL;
}

static void forget_wrong(backend *backend, recording *recording) {
  for (int i = 0; i < n_wrong; i++)
    if (wrong[i].r == recording) wrong[i--] = wrong[--n_wrong];
  real->recording_destroy(backend, recording);
}

/* All variants except the one that the rule chooses are wrong. None of them is measured. */
static void tune_wrong(bench *bench) {
  backend *cpu = bench->device->set.backends[0];
  real = cpu->vt;
  backend_vtable broken = *real;
  broken.record = record_wrong;
  broken.run = run_wrong;
  broken.recording_destroy = forget_wrong;
  cpu->vt = &broken;
  clave_tune_result result = tune(bench, (clave_tune_options){.again = true});
  cpu->vt = real;
  assert_int_equal(result.done, result.total);
  assert_int_equal(bench->of_one, bench->measured);
  assert_int_equal(bench->changed, 0);
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
