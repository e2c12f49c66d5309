/* Tests sessions that the CPU backend runs while their device is prepared: their results, the move
 * to the device, and the state that moves. The device is the CPU backend with a gate, so that all
 * results have the same bits. */
#include <stdatomic.h>
#include <unistd.h>

#include "base/clock.h"
#include "interp/null_device.h"

/* ---------------------------------------------------------------- the device */

static struct held {
  atomic_bool is_open;  /* if false, building waits until it is true or progress returns false */
  atomic_bool is_built; /* the result of is_built, set by building */
  atomic_int n_builds, n_built, n_stopped;
  status_code failure; /* failure of prepare */
} held;

static clave_status gate_request(stream *stream, const recording *recording) {
  (void)stream;
  (void)recording;
  return NULL;
}

static clave_status gate_build_all(stream *stream, build_progress progress, void *ctx) {
  (void)stream;
  held.n_builds++;
  while (!held.is_open) {
    if (!progress(ctx, 0, 1)) {
      held.n_stopped++;
      return NULL;
    }
    (void)usleep(500);
  }
  held.is_built = true;
  held.n_built++;
  return NULL;
}

static bool gate_is_built(stream *stream, const recording *recording) {
  (void)stream;
  (void)recording;
  return held.is_built;
}

static clave_status gate_prepare(stream *stream, const recording *recording, void **state) {
  (void)stream;
  (void)recording;
  (void)state;
  return held.failure ? status_new(held.failure, "no kernel today") : NULL;
}

static void gate_cache_destroy(backend *backend, void *cache) {
  (void)backend;
  (void)cache;
}

static backend *open_gated(void) {
  static const backend_building building = {.request = gate_request,
                                            .build_all = gate_build_all,
                                            .is_built = gate_is_built,
                                            .prepare = gate_prepare,
                                            .cache_destroy = gate_cache_destroy};
  static backend_vtable vt;
  backend *backend;
  good(cpu_backend_create(1, &backend));
  vt = *backend->vt;
  vt.building = &building;
  backend->vt = &vt;
  backend->info.kind = "gated";
  backend->info.name = "a gate";
  return backend;
}

/* ---------------------------------------------------------------- the program */

/* y = total + x + random, the next value of the state total; n = item(k); z = n ones; v = 2 w. */
static const char walk[] =
    "{'version': 2, 'producer': 'test', 'n_inputs': 3, 'n_outputs': 3, 'n_state': 1, 'values': ["
    "{'name': 'n', 'min': 0, 'max': 9}, {'name': 'm', 'min': 1, 'max': 40960}], 'tensors': ["
    "{'shape': [{'literal': 4}], 'name': 'x'}, {'dtype': 'I64', 'name': 'k'}, "
    "{'shape': [{'vid': {'idx': 1}}], 'name': 'w'}, {'shape': [{'literal': 4}], 'name': 'y'}, "
    "{'shape': [{'vid': {'idx': 0}}], 'name': 'z'}, {'shape': [{'vid': {'idx': 1}}], 'name': 'v'}, "
    "{'shape': [{'literal': 4}], 'name': 'total'}, {'shape': [{'literal': 4}], 'name': 'r'}], "
    "'chains': [{'name': 'forward', 'instructions': ["
    "{'op_type': 'Random', 'op': {'kind': 'uniform', 'out': {'idx': 7}}, 'name': 'r'}, "
    "{'op_type': 'Elementwise', 'op': {'inputs': [{'idx': 6}, {'idx': 0}, {'idx': 7}], 'steps': ["
    "{'kind': 'add', 'operands': [{}, {'index': 1}]}, "
    "{'kind': 'add', 'operands': [{'source': 'step'}, {'index': 2}]}], 'out': {'idx': 3}}, "
    "'name': 'y'}, "
    "{'op_type': 'Item', 'op': {'x': {'idx': 1}, 'out': {'idx': 0}}, 'name': 'n'}, "
    "{'op_type': 'Elementwise', 'op': {'steps': [{'kind': 'copy', 'operands': ["
    "{'source': 'float_', 'f': 1}]}], 'out': {'idx': 4}}, 'name': 'z'}, "
    "{'op_type': 'Elementwise', 'op': {'inputs': [{'idx': 2}], 'steps': [{'kind': 'mul', "
    "'operands': [{}, {'source': 'float_', 'f': 2}]}], 'out': {'idx': 5}}, 'name': 'v'}]}], "
    "'methods': [{'name': 'forward', 'inputs': [{'name': 'x', 'tensor': {'idx': 0}}, {'name': 'k', "
    "'tensor': {'idx': 1}}, {'name': 'w', 'tensor': {'idx': 2}}], 'outputs': [{'name': 'y', "
    "'tensor': {'idx': 3}}, {'name': 'z', 'tensor': {'idx': 4}}, {'name': 'v', 'tensor': {'idx': "
    "5}}], 'updates': [{'state': {'idx': 6}, 'value': {'idx': 3}}], 'metadata': ''}]}";
enum { OUTPUTS = 3, MAX_M = 40960 };

typedef struct opened {
  program *prog;
  backend *devices[2]; /* the device with the gate, and the CPU backend */
  constant_store *stores[2];
  executable *x, *cpu_x;
  session *answers, *alone; /* alone: the same runs by the CPU backend only */
  warm_up *w;
  int n_notes;
  char note[200]; /* the last */
  float data[MAX_M];
} opened;

static void take_note(void *ctx, const char *line) {
  opened *opened = ctx;
  opened->n_notes++;
  (void)snprintf(opened->note, sizeof opened->note, "%s", line);
}

static opened *open_walk(void) {
  opened *opened = calloc(1, sizeof *opened);
  assert_non_null(opened);
  held.is_open = held.is_built = false;
  held.n_builds = held.n_built = held.n_stopped = 0;
  held.failure = STATUS_OK;
  opened->prog = program_of(walk);
  opened->devices[0] = open_gated();
  good(cpu_backend_create(1, &opened->devices[1]));
  device_set both = {.backends = {opened->devices[0], opened->devices[1]}, .count = 2};
  device_set cpu = {.backends = {opened->devices[1]}, .count = 1};
  const executable_options plain = {0};
  const session_options options = {.seed = 7, .message = take_note, .message_ctx = opened};
  good(executable_create(opened->prog, &both, &plain, &opened->x));
  good(executable_create(opened->prog, &cpu, &plain, &opened->cpu_x));
  for (int i = 0; i < 2; i++)
    good(constant_store_create(opened->prog, opened->devices[i], &opened->stores[i]));
  good(session_create(opened->cpu_x, &opened->stores[1], &options, &opened->answers));
  good(session_create(opened->cpu_x, &opened->stores[1], &options, &opened->alone));
  good(warm_up_create(opened->x, opened->stores, &options, &opened->w));
  for (int i = 0; i < MAX_M; i++) opened->data[i] = (float)i;
  return opened;
}

static void close_walk(opened *opened) {
  warm_up_destroy(opened->w);
  session_destroy(opened->answers);
  session_destroy(opened->alone);
  executable_destroy(opened->x);
  executable_destroy(opened->cpu_x);
  for (int i = 0; i < 2; i++) constant_store_destroy(opened->stores[i]);
  for (int i = 0; i < 2; i++) opened->devices[i]->vt->destroy(opened->devices[i]);
  program_destroy(opened->prog);
  free(opened);
}

/* ---------------------------------------------------------------- runs */

static void set_inputs(opened *opened, session *session, int64_t k, int64_t m) {
  host_tensor floats = {.t = {.type = DTYPE_F32, .rank = 1, .dims = {4}, .strides = {1}},
                        .data = opened->data + k};
  host_tensor count = {.t = {.type = DTYPE_I64}, .data = &k};
  host_tensor bound = {.t = {.type = DTYPE_F32, .rank = 1, .dims = {m}, .strides = {1}},
                       .data = opened->data};
  good(session_set_input(session, 0, 0, &floats));
  good(session_set_input(session, 0, 1, &count));
  good(session_bind_input(session, 0, 2, &bound));
}

static bool has_moved(const opened *opened) {
  return strcmp(session_device(opened->answers)->kind, "gated") == 0;
}

static void expect_equal(opened *opened) {
  float total[2][4];
  for (uint32_t i = 0; i < OUTPUTS; i++) {
    host_tensor got, want;
    good(session_output(opened->answers, 0, i, &got));
    good(session_output(opened->alone, 0, i, &want));
    assert_int_equal(got.t.dims[0], want.t.dims[0]);
    assert_memory_equal(got.data, want.data, (size_t)want.t.dims[0] * sizeof(float));
  }
  good(session_read_state(opened->answers, 0, total[0], sizeof total[0]));
  good(session_read_state(opened->alone, 0, total[1], sizeof total[1]));
  assert_memory_equal(total[0], total[1], sizeof total[0]);
}

/* Runs once, with n = k and vectors of m. Unless may_move, the session must not move. */
static void run_walk(opened *opened, int64_t k, int64_t m, bool may_move) {
  bool before = has_moved(opened);
  set_inputs(opened, opened->answers, k, m);
  set_inputs(opened, opened->alone, k, m);
  warm_up_advance(opened->w, &opened->answers, 0);
  assert_true(may_move || before == has_moved(opened));
  good(session_run(opened->answers, 0));
  good(session_run(opened->alone, 0));
  expect_equal(opened);
}

static void run_until_moved(opened *opened, int64_t k, int64_t m) {
  for (int i = 0; i < 6000 && !has_moved(opened); i++) {
    run_walk(opened, k, m, true);
    (void)usleep(500);
  }
  assert_true(has_moved(opened));
}

static void wait_for(atomic_int *count, int least) {
  for (int i = 0; i < 6000 && *count < least; i++) (void)usleep(500);
  assert_true(*count >= least);
}

/* ---------------------------------------------------------------- moving */

static void moves_when_ready(void **state) {
  (void)state;
  opened *opened = open_walk();
  for (int i = 0; i < 5; i++) run_walk(opened, 3, 5, false);
  held.is_open = true;
  run_until_moved(opened, 3, 5);
  for (int i = 0; i < 3; i++)
    run_walk(opened, i, 5 + i, false); /* like any session, it builds kernels and waits */
  assert_int_equal(opened->n_notes, 0);
  close_walk(opened);
}

/* The schedule that depends on the last run's data is prepared, too, before the session moves. */
static void later_schedules_are_prepared(void **state) {
  (void)state;
  opened *opened = open_walk();
  held.is_open = true;
  run_until_moved(opened, 3, 5);
  int builds = held.n_builds;
  run_walk(opened, 3, 5, false);
  assert_int_equal(held.n_builds, builds);
  assert_true(builds >= 2);
  close_walk(opened);
}

/* Other sizes wait for kernels only if they need new ones. */
static void other_sizes_move_too(void **state) {
  (void)state;
  opened *opened = open_walk();
  held.is_open = true;
  for (int64_t m = 1; m < 6000 && !has_moved(opened); m++) {
    run_walk(opened, m % 9, m, true); /* no size comes twice */
    (void)usleep(500);
  }
  assert_true(has_moved(opened));
  close_walk(opened);
}

static void other_sizes_wait_for_kernels(void **state) {
  (void)state;
  opened *opened = open_walk();
  run_walk(opened, 3, 5, false);
  held.is_open = true;
  wait_for(&held.n_built, 1); /* up to the item */
  held.is_open = false;
  while (held.n_builds < 2) run_walk(opened, 3, 5, false);
  held.is_open = true;
  wait_for(&held.n_built, 3); /* all of it */
  held.is_open = held.is_built = false;
  for (int i = 0; i < 20; i++) {
    run_walk(opened, 3, 6, false);
    (void)usleep(500);
  }
  held.is_open = true;
  run_until_moved(opened, 3, 6);
  close_walk(opened);
}

/* Results of the last run stay readable until the next run; arguments stay bound. */
static void arguments_move(void **state) {
  (void)state;
  opened *opened = open_walk();
  float v[6], *large = memory_alloc_aligned(4096, MAX_M * sizeof *large);
  host_tensor before, after;
  good(session_bind_output(opened->answers, 0, 2, v, sizeof v));
  held.is_open = true;
  run_walk(opened, 3, 5, false);
  good(session_output(opened->answers, 0, 0, &before));
  for (int i = 0; i < 6000 && !has_moved(opened); i++) {
    set_inputs(opened, opened->answers, 3, 5);
    warm_up_advance(opened->w, &opened->answers, 0);
    good(session_output(opened->answers, 0, 0, &after));
    assert_ptr_equal(after.data, before.data);
    if (!has_moved(opened)) run_walk(opened, 3, 5, true);
    (void)usleep(500);
  }
  memset(v, 0, sizeof v);
  run_walk(opened, 3, 6, false);
  assert_true(v[5] == 10);
  good(session_bind_output(opened->answers, 0, 2, large, MAX_M * sizeof *large)); /* in place */
  run_walk(opened, 3, MAX_M, false);
  assert_true(large[MAX_M - 1] == 2 * (MAX_M - 1));
  close_walk(opened);
  memory_free(large);
}

/* ---------------------------------------------------------------- failures */

static void errors_leave_it_on_the_cpu(void **state) {
  (void)state;
  opened *opened = open_walk();
  held.failure = STATUS_DEVICE;
  held.is_open = true;
  for (int i = 0; i < 6000 && !opened->n_notes; i++) {
    run_walk(opened, 3, 5, false);
    (void)usleep(500);
  }
  assert_non_null(strstr(opened->note, "preparing a gate failed (no kernel today; "));
  int builds = held.n_builds;
  for (int i = 0; i < 5; i++) run_walk(opened, 3, 5, false);
  assert_int_equal(held.n_builds, builds);
  assert_int_equal(opened->n_notes, 1);
  close_walk(opened);
}

/* Ops that the device cannot build stay on the CPU backend; the other ops move with the session. */
static void ops_that_do_not_build_move(void **state) {
  (void)state;
  opened *opened = open_walk();
  held.failure = STATUS_UNSUPPORTED;
  held.is_open = true;
  run_until_moved(opened, 3, 5);
  assert_non_null(strstr(opened->note, "cannot run on a gate (no kernel today)"));
  node_placement rows[8];
  executable_placement(session_executable(opened->answers), 0, rows);
  for (int i = 0; i < 5; i++)
    if (i != 2) assert_string_equal(rows[i].where, "cpu");
  run_walk(opened, 3, 5, false);
  close_walk(opened);
}

static void bad_inputs_change_nothing(void **state) {
  (void)state;
  opened *opened = open_walk();
  held.is_open = true;
  for (int i = 0; i < 3; i++) { /* inputs are missing */
    warm_up_advance(opened->w, &opened->answers, 0);
    clave_status st = session_run(opened->answers, 0);
    assert_int_equal(status_code_of(st), STATUS_INVALID);
    status_free(st);
  }
  int64_t bad = 10; /* n is at most 9: the plan refuses it, here and in the thread */
  for (int i = 0; i < 3; i++) {
    set_inputs(opened, opened->answers, 3, 5);
    host_tensor tensor = {.t = {.type = DTYPE_I64}, .data = &bad};
    good(session_set_input(opened->answers, 0, 1, &tensor));
    warm_up_advance(opened->w, &opened->answers, 0);
    clave_status st = session_run(opened->answers, 0);
    assert_int_equal(status_code_of(st), STATUS_INVALID);
    status_free(st);
    (void)usleep(2000);
  }
  assert_int_equal(opened->n_notes, 0);
  good(session_copy_state(opened->alone, opened->answers));
  run_until_moved(opened, 3, 5);
  close_walk(opened);
}

/* A run that fails at a value read from data does not show which kernels the device needs. Only the
 * schedules of successful runs are prepared, even if other runs fail in between. */
static void failed_runs_are_not_prepared(void **state) {
  (void)state;
  const int64_t bad = 10;
  const host_tensor tensor = {.t = {.type = DTYPE_I64}, .data = (void *)&bad};
  opened *opened = open_walk();
  held.is_open = true;
  set_inputs(opened, opened->answers, 3, 5);
  good(session_set_input(opened->answers, 0, 1, &tensor));
  warm_up_advance(opened->w, &opened->answers, 0);
  clave_status st = session_run(opened->answers, 0);
  assert_int_equal(status_code_of(st), STATUS_INVALID);
  status_free(st);
  wait_for(&held.n_built, 1);
  (void)usleep(5000);
  set_inputs(opened, opened->answers, 3, 5);
  warm_up_advance(opened->w, &opened->answers, 0);
  (void)usleep(5000);
  assert_int_equal(held.n_builds, 1);
  good(session_run(opened->answers, 0));
  good(session_copy_state(opened->alone, opened->answers));
  run_until_moved(opened, 3, 5);
  close_walk(opened);
}

static void destroying_stops_it(void **state) {
  (void)state;
  opened *opened = open_walk();
  run_walk(opened, 3, 5, false);
  wait_for(&held.n_builds, 1);
  int64_t start = clock_ns();
  close_walk(opened);
  assert_true(clock_ns() - start < INT64_C(5000000000));
  assert_int_equal(held.n_stopped, 1);
  close_walk(open_walk()); /* no run at all */
  warm_up_destroy(NULL);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(moves_when_ready),
      cmocka_unit_test(later_schedules_are_prepared),
      cmocka_unit_test(other_sizes_move_too),
      cmocka_unit_test(other_sizes_wait_for_kernels),
      cmocka_unit_test(arguments_move),
      cmocka_unit_test(errors_leave_it_on_the_cpu),
      cmocka_unit_test(ops_that_do_not_build_move),
      cmocka_unit_test(bad_inputs_change_nothing),
      cmocka_unit_test(failed_runs_are_not_prepared),
      cmocka_unit_test(destroying_stops_it),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
