/* Inputs and outputs in the host's memory: in place if the device shares that memory, else copied,
 * with the same results. Run from the project's root. */
#include "interp/null_device.h"

enum { ROWS = 160, COLUMNS = 128, N = ROWS * COLUMNS, BYTES = N * 4, ROOM = BYTES + 4096 };

/* y = 2 x, z = y + 1, and the least of x, all large enough to be in place but the last. */
static const char doubled[] =
    "{'version': 1, 'producer': 'test', 'n_inputs': 1, 'n_outputs': 3, 'tensors': ["
    "{'shape': [{'literal': 160}, {'literal': 128}], 'name': 'x'},"
    "{'shape': [{'literal': 160}, {'literal': 128}], 'name': 'y'},"
    "{'shape': [{'literal': 160}, {'literal': 128}], 'name': 'z'},"
    "{'name': 'least'}], 'chains': [{'name': 'forward', 'instructions': ["
    "{'op_type': 'Elementwise', 'op': {'inputs': [{'idx': 0}], 'steps': [{'kind': 'mul', "
    "'operands': "
    "[{}, {'source': 'float_', 'f': 2}]}], 'out': {'idx': 1}}, 'name': 'y'},"
    "{'op_type': 'Elementwise', 'op': {'inputs': [{'idx': 1}], 'steps': [{'kind': 'add', "
    "'operands': "
    "[{}, {'source': 'float_', 'f': 1}]}], 'out': {'idx': 2}}, 'name': 'z'},"
    "{'op_type': 'Reduce', 'op': {'kind': 'min', 'x': {'idx': 0}, 'out': {'idx': 3}}, 'name': "
    "'least'}]}], 'methods': [{'name': 'forward', 'inputs': [{'name': 'x', 'tensor': {'idx': 0}}], "
    "'outputs': [{'name': 'y', 'tensor': {'idx': 1}}, {'name': 'z', 'tensor': {'idx': 2}}, "
    "{'name': "
    "'least', 'tensor': {'idx': 3}}], 'metadata': ''}]}";

typedef struct opened {
  program *prog;
  backend *device;
  constant_store *store;
  executable *x;
  session *s;
} opened;

static opened open_session(bool is_opencl, bool poison) {
  opened opened = {.prog = program_of(doubled)};
  if (is_opencl)
    good(opencl_backend_create(0, &(opencl_options){0}, &opened.device));
  else
    good(cpu_backend_create(2, &opened.device));
  device_set set = {.backends = {opened.device}, .count = 1};
  good(executable_create(opened.prog, &set, &(executable_options){.unfused = true}, &opened.x));
  good(constant_store_create(opened.prog, opened.device, &opened.store));
  good(session_create(opened.x, &opened.store, &(session_options){.poison = poison}, &opened.s));
  return opened;
}

static void close_session(opened *opened) {
  session_destroy(opened->s);
  executable_destroy(opened->x);
  constant_store_destroy(opened->store);
  opened->device->vt->destroy(opened->device);
  program_destroy(opened->prog);
}

static host_tensor tensor_at(float *data) {
  host_tensor tensor = {.t = {.type = DTYPE_F32, .rank = 2, .dims = {ROWS, COLUMNS}}, .data = data};
  tensor_set_contiguous(&tensor.t);
  return tensor;
}

static void fill(float *values, float first) {
  for (int i = 0; i < N; i++) values[i] = first + (float)i;
}

static void expect_output(const opened *opened, uint32_t index, float scale, float first) {
  host_tensor tensor;
  good(session_output(opened->s, 0, index, &tensor));
  for (int i = 0; i < N; i++)
    assert_true(((float *)tensor.data)[i] == scale * (float)i + first); /* small integers: exact */
}

/* Checks the results of a run over `first`, `first` + 1, ... */
static void run_and_check(const opened *opened, float first) {
  host_tensor least;
  good(session_run(opened->s, 0));
  expect_output(opened, 0, 2, 2 * first);
  expect_output(opened, 1, 2, 2 * first + 1);
  good(session_output(opened->s, 0, 2, &least));
  assert_true(*(float *)least.data == first);
}

static float *page_aligned(size_t bytes) {
  void *memory = memory_alloc_aligned(4096, (bytes + 4095) / 4096 * 4096);
  assert_non_null(memory);
  return memory;
}

/* Makes sixteen runs with bound memory that changes, other and unaligned memory, set inputs. */
static void use_inputs(bool is_opencl, bool poison) {
  opened opened = open_session(is_opencl, poison);
  float *first = page_aligned(ROOM), *second = page_aligned(ROOM);
  for (int i = 0; i < 16; i++) {
    float *at = i / 4 % 2 ? second : first, *other = i / 4 % 2 ? first : second;
    float *values = at + (i % 3 == 2); /* some are not aligned */
    fill(other, -9);
    host_tensor tensor = tensor_at(values);
    fill(values, (float)i);
    good(i % 5 == 4 ? session_set_input(opened.s, 0, 0, &tensor)
                    : session_bind_input(opened.s, 0, 0, &tensor));
    if (i % 5 == 4) fill(values, -7); /* was copied */
    run_and_check(&opened, (float)i);
    if (i % 5 == 4) continue;
    assert_true(values[0] == (float)i &&
                values[N - 1] == (float)i + N - 1); /* as the caller left it */
    fill(values, (float)i + 100);
    run_and_check(&opened, (float)i + 100);
    assert_true(other[0] == -9 && other[N - 1] == N - 10); /* no device uses the memory any more */
  }
  good(session_bind_input(opened.s, 0, 0, NULL));
  clave_status st = session_run(opened.s, 0);
  assert_non_null(strstr(status_message(st), "was not given"));
  status_free(st);
  close_session(&opened);
  memory_free(first);
  memory_free(second);
}

static void inputs_are_read_where_they_are(void **state) {
  (void)state;
  for (int i = 0; i < 4; i++) use_inputs(i & 1, i & 2);
}

/* A transposed view of bound memory is gathered in each run. */
static void strided_inputs_are_gathered(void **state) {
  (void)state;
  for (int k = 0; k < 2; k++) {
    opened opened = open_session(k, false);
    float *values = page_aligned(ROOM), *got;
    host_tensor tensor = tensor_at(values), out;
    tensor.t.strides[0] = 1;
    tensor.t.strides[1] = ROWS;
    good(session_bind_input(opened.s, 0, 0, &tensor));
    for (int run = 0; run < 2; run++) {
      fill(values, (float)run);
      good(session_run(opened.s, 0));
      good(session_output(opened.s, 0, 0, &out));
      got = out.data;
      for (int i = 0; i < N; i++)
        assert_true(got[i] == 2 * (float)(run + i / COLUMNS + i % COLUMNS * ROWS));
    }
    close_session(&opened);
    memory_free(values);
  }
}

static void use_outputs(bool is_opencl, bool poison) {
  opened opened = open_session(is_opencl, poison);
  float *values = page_aligned(ROOM), *results = page_aligned(ROOM), *sums = page_aligned(ROOM);
  host_tensor tensor = tensor_at(values), got;
  for (int i = 0; i < 8; i++) {
    float *at = results + (i % 3 == 2);
    fill(values, (float)i);
    good(session_bind_input(opened.s, 0, 0, &tensor));
    good(session_bind_output(opened.s, 0, 0, i % 4 == 3 ? NULL : at, BYTES));
    good(session_bind_output(opened.s, 0, 1, sums, ROOM - 64));
    run_and_check(&opened, (float)i);
    good(session_output(opened.s, 0, 1, &got));
    assert_ptr_equal(got.data, sums);
    good(session_output(opened.s, 0, 0, &got));
    if (i % 4 != 3) assert_ptr_equal(got.data, at);
    run_and_check(&opened, (float)i);
  }
  close_session(&opened);
  memory_free(values);
  memory_free(results);
  memory_free(sums);
}

static void outputs_are_written_where_they_shall_be(void **state) {
  (void)state;
  for (int i = 0; i < 4; i++) use_outputs(i & 1, i & 2);
}

/* A result may overwrite the input: it is written at the end of the run. */
static void outputs_may_lie_on_inputs(void **state) {
  (void)state;
  for (int k = 0; k < 2; k++) {
    opened opened = open_session(k, false);
    float *values = page_aligned(ROOM);
    host_tensor tensor = tensor_at(values);
    good(session_bind_input(opened.s, 0, 0, &tensor));
    good(session_bind_output(opened.s, 0, 0, values, BYTES));
    fill(values, 3);
    run_and_check(&opened, 3); /* y is stored over x, after z is computed from it */
    good(session_run(opened.s, 0));
    expect_output(&opened, 0, 4, 12); /* twice */
    close_session(&opened);
    memory_free(values);
  }
}

static void expect_error(clave_status st, const char *expected) {
  assert_non_null(st);
  if (!strstr(status_message(st), expected)) fail_msg("%s: no '%s'", status_message(st), expected);
  status_free(st);
}

static void bad_memory_is_refused(void **state) {
  (void)state;
  for (int k = 0; k < 2; k++) {
    opened opened = open_session(k, false);
    float *values = page_aligned(ROOM), *results = page_aligned(2 * ROOM);
    host_tensor tensor = tensor_at(values), out, wrong = tensor;
    fill(values, 1);
    good(session_bind_input(opened.s, 0, 0, &tensor));
    good(session_bind_output(opened.s, 0, 0, results, BYTES - 1));
    expect_error(session_run(opened.s, 0),
                 "output 0 ('y') has 81920 bytes, and the given memory has 81919");
    good(session_bind_output(opened.s, 0, 0, results, BYTES));
    expect_error(session_bind_output(opened.s, 0, 1, results + N - 1, BYTES),
                 "memory of outputs 0 ('y') and 1 ('z') of method 'forward' overlaps");
    expect_error(session_bind_output(opened.s, 0, 3, results, BYTES),
                 "output 3 is out of range: method 'forward' has 3");
    run_and_check(&opened, 1); /* the refused output stays the session's own */
    good(session_bind_output(opened.s, 0, 0, NULL, 0));
    expect_error(session_output(opened.s, 0, 0, &out), "has not run");
    wrong.t.dims[1]--;
    expect_error(session_bind_input(opened.s, 0, 0, &wrong), "expected F32");
    expect_error(session_run(opened.s, 0), "was not given");
    expect_error(session_bind_input(opened.s, 0, 1, &tensor),
                 "input 1 is out of range: method 'forward' has 1");
    close_session(&opened);
    memory_free(values);
    memory_free(results);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(inputs_are_read_where_they_are),
      cmocka_unit_test(strided_inputs_are_gathered),
      cmocka_unit_test(outputs_are_written_where_they_shall_be),
      cmocka_unit_test(outputs_may_lie_on_inputs),
      cmocka_unit_test(bad_memory_is_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
