/* Work counts that a profiled run records: an input that decides them is read once per run. */
#include "interp/null_device.h"
#include "interp/run/trace_work.h"

/* y = the rows of x times their groups' matrices, twice. */
static const char groups[] =
    "{'version': 2, 'producer': 'test', 'n_inputs': 3, 'n_outputs': 1, 'tensors': ["
    "{'shape': [{'literal': 4}, {'literal': 2}], 'name': 'x'}, "
    "{'shape': [{'literal': 3}, {'literal': 2}, {'literal': 2}], 'name': 'w'}, "
    "{'dtype': 'I64', 'shape': [{'literal': 3}], 'name': 'ends'}, "
    "{'shape': [{'literal': 4}, {'literal': 2}], 'name': 'y'}, "
    "{'shape': [{'literal': 4}, {'literal': 2}], 'name': 'h'}], "
    "'chains': [{'name': 'forward', 'instructions': ["
    "{'op_type': 'GroupedMatmul', 'op': {'a': {'idx': 0}, 'b': {'idx': 1}, 'ends': {'idx': 2}, "
    "'out': {'idx': 4}}, 'name': 'h'}, "
    "{'op_type': 'GroupedMatmul', 'op': {'a': {'idx': 4}, 'b': {'idx': 1}, 'ends': {'idx': 2}, "
    "'out': {'idx': 3}}, 'name': 'y'}]}], "
    "'methods': [{'name': 'forward', 'inputs': [{'name': 'x', 'tensor': {'idx': 0}}, {'name': 'w', "
    "'tensor': {'idx': 1}}, {'name': 'ends', 'tensor': {'idx': 2}}], 'outputs': [{'name': 'y', "
    "'tensor': {'idx': 3}}], 'metadata': ''}]}";

/* The functions of the CPU backend, whose reads of `ends` are counted. */
static const backend_vtable *plain;
static int n_reads;

static clave_status count_read(stream *stream, const buffer *from, size_t offset, void *to,
                               size_t n) {
  n_reads += n == 3 * sizeof(int64_t);
  return plain->read(stream, from, offset, to, n);
}

static backend *open_counting(void) {
  static backend_vtable vt;
  backend *backend;
  good(cpu_backend_create(1, &backend));
  plain = backend->vt;
  vt = *plain;
  vt.read = count_read;
  backend->vt = &vt;
  return backend;
}

static void set_groups(session *session, const int64_t *ends) {
  static float x[8], w[12];
  const host_tensor inputs[] = {
      {.t = {.type = DTYPE_F32, .rank = 2, .dims = {4, 2}, .strides = {2, 1}}, .data = x},
      {.t = {.type = DTYPE_F32, .rank = 3, .dims = {3, 2, 2}, .strides = {4, 2, 1}}, .data = w},
      {.t = {.type = DTYPE_I64, .rank = 1, .dims = {3}, .strides = {1}}, .data = (void *)ends}};
  for (uint32_t i = 0; i < 3; i++) good(session_set_input(session, 0, i, &inputs[i]));
}

/* Expects 2 FLOP times 2 x 2 for each row in a group. */
static void expect_rows(session *session, const int64_t *ends, int rows) {
  n_reads = 0;
  set_groups(session, ends);
  good(session_run(session, 0));
  assert_int_equal(n_reads, 1);
  good(trace_compute_work(session));
  int seen = 0;
  for (uint32_t i = 0; i < session->n_events; i++) {
    if (session->events[i].kind != COMMAND_RUN) continue;
    assert_true(session->events[i].flops == 8.0 * rows);
    seen++;
  }
  assert_int_equal(seen, 2);
  assert_int_equal(n_reads, 1);
}

/* An input on which the work of several ops depends is read once per run. */
static void inputs_are_read_once(void **state) {
  (void)state;
  static const int64_t some[] = {1, 1, 3}, all[] = {0, 2, 4};
  program *program = program_of(groups);
  backend *backend = open_counting();
  const device_set devices = {.backends = {backend}, .count = 1};
  const executable_options plain_options = {0};
  const session_options options = {.profile = true};
  constant_store *store;
  executable *executable;
  session *session;
  good(executable_create(program, &devices, &plain_options, &executable));
  good(constant_store_create(program, backend, &store));
  good(session_create(executable, &store, &options, &session));
  expect_rows(session, some, 3);
  expect_rows(session, all, 4);
  session_destroy(session);
  executable_destroy(executable);
  constant_store_destroy(store);
  backend->vt->destroy(backend);
  program_destroy(program);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(inputs_are_read_once)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
