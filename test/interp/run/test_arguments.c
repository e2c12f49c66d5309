/* Inputs and outputs in the host's memory: in place where a device shares it, else copied, with the
 * same results. Run from the project's root. */
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
  opened o = {.prog = program_of(doubled)};
  if (is_opencl)
    good(opencl_backend_create(0, &(opencl_options){0}, &o.device));
  else
    good(cpu_backend_create(2, &o.device));
  device_set set = {.backends = {o.device}, .count = 1};
  good(executable_create(o.prog, &set, &(executable_options){.unfused = true}, &o.x));
  good(constant_store_create(o.prog, o.device, &o.store));
  good(session_create(o.x, &o.store, &(session_options){.poison = poison}, &o.s));
  return o;
}

static void close_session(opened *o) {
  session_destroy(o->s);
  executable_destroy(o->x);
  constant_store_destroy(o->store);
  o->device->vt->destroy(o->device);
  program_destroy(o->prog);
}

static host_tensor tensor_at(float *data) {
  host_tensor h = {.t = {.type = DTYPE_F32, .rank = 2, .dims = {ROWS, COLUMNS}}, .data = data};
  tensor_set_contiguous(&h.t);
  return h;
}

static void fill(float *x, float first) {
  for (int i = 0; i < N; i++) x[i] = first + (float)i;
}

static void expect_output(const opened *o, uint32_t index, float scale, float first) {
  host_tensor h;
  good(session_output(o->s, 0, index, &h));
  for (int i = 0; i < N; i++)
    assert_true(((float *)h.data)[i] == scale * (float)i + first); /* small integers: exact */
}

/* Results of a run over `first`, `first` + 1, ... */
static void run_and_check(const opened *o, float first) {
  host_tensor least;
  good(session_run(o->s, 0));
  expect_output(o, 0, 2, 2 * first);
  expect_output(o, 1, 2, 2 * first + 1);
  good(session_output(o->s, 0, 2, &least));
  assert_true(*(float *)least.data == first);
}

static float *page_aligned(size_t bytes) {
  void *p = aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
  assert_non_null(p);
  return p;
}

/* Sixteen runs: bound memory that changes between them, other memory, not aligned, set, bound. */
static void use_inputs(bool is_opencl, bool poison) {
  opened o = open_session(is_opencl, poison);
  float *a = page_aligned(ROOM), *b = page_aligned(ROOM);
  for (int i = 0; i < 16; i++) {
    float *at = i / 4 % 2 ? b : a, *other = i / 4 % 2 ? a : b;
    float *x = at + (i % 3 == 2); /* some are not aligned */
    fill(other, -9);
    host_tensor h = tensor_at(x);
    fill(x, (float)i);
    good(i % 5 == 4 ? session_set_input(o.s, 0, 0, &h) : session_bind_input(o.s, 0, 0, &h));
    if (i % 5 == 4) fill(x, -7); /* was copied */
    run_and_check(&o, (float)i);
    if (i % 5 == 4) continue;
    assert_true(x[0] == (float)i && x[N - 1] == (float)i + N - 1); /* as the caller left it */
    fill(x, (float)i + 100);
    run_and_check(&o, (float)i + 100);
    assert_true(other[0] == -9 && other[N - 1] == N - 10); /* no device has it any more */
  }
  good(session_bind_input(o.s, 0, 0, NULL));
  clave_status st = session_run(o.s, 0);
  assert_non_null(strstr(status_message(st), "was not given"));
  status_free(st);
  close_session(&o);
  free(a);
  free(b);
}

static void inputs_are_read_where_they_are(void **state) {
  (void)state;
  for (int i = 0; i < 4; i++) use_inputs(i & 1, i & 2);
}

/* A transposed view of bound memory is gathered in each run. */
static void strided_inputs_are_gathered(void **state) {
  (void)state;
  for (int k = 0; k < 2; k++) {
    opened o = open_session(k, false);
    float *a = page_aligned(ROOM), *got;
    host_tensor h = tensor_at(a), out;
    h.t.strides[0] = 1;
    h.t.strides[1] = ROWS;
    good(session_bind_input(o.s, 0, 0, &h));
    for (int run = 0; run < 2; run++) {
      fill(a, (float)run);
      good(session_run(o.s, 0));
      good(session_output(o.s, 0, 0, &out));
      got = out.data;
      for (int i = 0; i < N; i++)
        assert_true(got[i] == 2 * (float)(run + i / COLUMNS + i % COLUMNS * ROWS));
    }
    close_session(&o);
    free(a);
  }
}

static void use_outputs(bool is_opencl, bool poison) {
  opened o = open_session(is_opencl, poison);
  float *x = page_aligned(ROOM), *y = page_aligned(ROOM), *z = page_aligned(ROOM);
  host_tensor h = tensor_at(x), got;
  for (int i = 0; i < 8; i++) {
    float *at = y + (i % 3 == 2);
    fill(x, (float)i);
    good(session_bind_input(o.s, 0, 0, &h));
    good(session_bind_output(o.s, 0, 0, i % 4 == 3 ? NULL : at, BYTES));
    good(session_bind_output(o.s, 0, 1, z, ROOM - 64));
    run_and_check(&o, (float)i);
    good(session_output(o.s, 0, 1, &got));
    assert_ptr_equal(got.data, z);
    good(session_output(o.s, 0, 0, &got));
    if (i % 4 != 3) assert_ptr_equal(got.data, at);
    run_and_check(&o, (float)i);
  }
  close_session(&o);
  free(x);
  free(y);
  free(z);
}

static void outputs_are_written_where_they_shall_be(void **state) {
  (void)state;
  for (int i = 0; i < 4; i++) use_outputs(i & 1, i & 2);
}

/* A result may replace the input: it is written when the run is over. */
static void outputs_may_lie_on_inputs(void **state) {
  (void)state;
  for (int k = 0; k < 2; k++) {
    opened o = open_session(k, false);
    float *x = page_aligned(ROOM);
    host_tensor h = tensor_at(x);
    good(session_bind_input(o.s, 0, 0, &h));
    good(session_bind_output(o.s, 0, 0, x, BYTES));
    fill(x, 3);
    run_and_check(&o, 3); /* y, of which z is made, lies on x */
    good(session_run(o.s, 0));
    expect_output(&o, 0, 4, 12); /* twice */
    close_session(&o);
    free(x);
  }
}

static void expect_error(clave_status st, const char *said) {
  assert_non_null(st);
  if (!strstr(status_message(st), said)) fail_msg("%s: no '%s'", status_message(st), said);
  status_free(st);
}

static void bad_memory_is_refused(void **state) {
  (void)state;
  for (int k = 0; k < 2; k++) {
    opened o = open_session(k, false);
    float *x = page_aligned(ROOM), *y = page_aligned(2 * ROOM);
    host_tensor h = tensor_at(x), out, wrong = h;
    fill(x, 1);
    good(session_bind_input(o.s, 0, 0, &h));
    good(session_bind_output(o.s, 0, 0, y, BYTES - 1));
    expect_error(session_run(o.s, 0), "output 0 ('y') has 81920 bytes, there is room for 81919");
    good(session_bind_output(o.s, 0, 0, y, BYTES));
    expect_error(session_bind_output(o.s, 0, 1, y + N - 1, BYTES),
                 "memory of outputs 0 ('y') and 1 ('z') of method 'forward' overlaps");
    expect_error(session_bind_output(o.s, 0, 3, y, BYTES),
                 "output 3 of method 'forward', which has 3");
    run_and_check(&o, 1); /* the refused one is the session's own */
    good(session_bind_output(o.s, 0, 0, NULL, 0));
    expect_error(session_output(o.s, 0, 0, &out), "has not run");
    wrong.t.dims[1]--;
    expect_error(session_bind_input(o.s, 0, 0, &wrong), "expected F32");
    expect_error(session_run(o.s, 0), "was not given");
    expect_error(session_bind_input(o.s, 0, 1, &h), "input 1 of method 'forward', which has 1");
    close_session(&o);
    free(x);
    free(y);
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
