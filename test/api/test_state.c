/* Tests session state, which is read, written and copied, and data that a program carries. */
#include "test/serialize/sample.h"

#include "clave_host.h"
#include "test/api/expect.h"

/* The sample counts the runs of "forward" in its only state, from `sample_start` on. */
static clave_program *open_sample(void) {
  program *program;
  clave_program *out;
  char *path = in_folder("sample.clv");
  expect_good(sample_program(SAMPLE_PROGRAM, &program));
  expect_good(program_save(program, path));
  program_destroy(program);
  good(clave_program_load(path, NULL, &out));
  free(path);
  return out;
}

static void run_once(clave_session *session) {
  float x[3] = {1, 2, 3};
  int64_t dims[] = {1, 3};
  clave_tensor tensor = clave_tensor_make(CLAVE_F32, 2, dims, x);
  good(clave_session_set_input(session, "forward", 0, &tensor));
  good(clave_session_run(session, "forward"));
}

static int64_t count_of(clave_session *session) {
  int64_t count[2];
  good(clave_session_read_state(session, 0, count, sizeof count));
  return count[0] - sample_start[0];
}

static void check_devices(const char *first, const char *second) {
  clave_program *program = open_sample();
  clave_device *devices[2];
  clave_session *session, *other_session;
  clave_tensor_info info = {.size = sizeof info};
  good(clave_device_open(first, NULL, &devices[0]));
  good(clave_device_open(second, NULL, &devices[1]));
  good(clave_session_create(program, devices[0], NULL, &session));
  good(clave_session_create(program, devices[strcmp(first, second) != 0], NULL, &other_session));
  good(clave_program_state(program, 0, &info));
  assert_string_equal(info.name, "count");
  assert_int_equal(info.dims[0], 2);
  for (int i = 0; i < 3; i++) run_once(session);
  assert_int_equal(count_of(session), 3);
  assert_int_equal(count_of(other_session), 0);
  good(clave_session_copy_state(other_session, session));
  good(clave_session_copy_state(other_session, other_session));
  run_once(other_session); /* independent from now on */
  assert_int_equal(count_of(session), 3);
  assert_int_equal(count_of(other_session), 4);
  int64_t other[2] = {sample_start[0] + 40, 0};
  good(clave_session_write_state(session, 0, other, sizeof other));
  run_once(session);
  assert_int_equal(count_of(session), 41);
  good(clave_session_reset(session));
  assert_int_equal(count_of(session), 0);
  clave_session_destroy(session);
  clave_session_destroy(other_session);
  for (int i = 0; i < 2; i++) clave_device_destroy(devices[i]);
  clave_program_destroy(program);
}

static void test_state_on_cpu(void **state) {
  (void)state;
  check_devices("cpu", "cpu");
}

static void test_state_on_opencl(void **state) {
  (void)state;
  if (clave_devices_hint()) skip();
  check_devices("opencl", "opencl");
  check_devices("opencl", "cpu");
}

/* Runs a check on the CPU backend, and on OpenCL if there is a device. */
static void on_both(void (*check)(const char *device)) {
  check("cpu");
  if (!clave_devices_hint()) check("opencl");
}

/* Copies all states between sessions, each with different bytes. */
static void check_copies(const char *name) {
  clave_device *device;
  clave_program *program;
  clave_session *session, *other_session;
  clave_program_info info = {.size = sizeof info};
  good(clave_device_open(name, NULL, &device));
  good(clave_program_load("examples/tinylm/tinylm.clv", NULL, &program));
  good(clave_session_create(program, device, NULL, &session));
  good(clave_session_create(program, device, NULL, &other_session));
  good(clave_program_get_info(program, &info));
  assert_true(info.n_state > 1);
  uint8_t *bytes = malloc(info.state_bytes), *copied = malloc(info.state_bytes);
  for (int reading = 0; reading < 2; reading++) {
    for (uint32_t i = 0; i < info.n_state; i++) {
      clave_tensor_info tensor_info = {.size = sizeof tensor_info};
      good(clave_program_state(program, i, &tensor_info));
      size_t n = clave_dtype_size(tensor_info.dtype);
      for (int k = 0; k < tensor_info.rank; k++) n *= (size_t)tensor_info.dims[k];
      memset(bytes, (int)i + 1, n);
      if (reading) good(clave_session_read_state(other_session, i, copied, n));
      if (reading) assert_memory_equal(copied, bytes, n);
      if (!reading) good(clave_session_write_state(session, i, bytes, n));
    }
    good(clave_session_copy_state(other_session, session));
  }
  free(bytes);
  free(copied);
  clave_session_destroy(session);
  clave_session_destroy(other_session);
  clave_program_destroy(program);
  clave_device_destroy(device);
}

static void test_every_state_is_copied(void **state) {
  (void)state;
  on_both(check_copies);
}

static const char rotating_program[] =
    "{\"version\": 2, \"tensors\": ["
    "{\"dtype\": \"I32\", \"shape\": [{\"literal\": 3}], \"name\": \"a\"}, "
    "{\"dtype\": \"I32\", \"shape\": [{\"literal\": 3}], \"name\": \"b\"}, "
    "{\"dtype\": \"I32\", \"shape\": [{\"literal\": 3}], \"name\": \"c\"}], "
    "\"n_state\": 3, \"chains\": [{\"instructions\": []}], \"methods\": [{\"name\": \"forward\", "
    "\"updates\": [{\"state\": {\"idx\": 0}, \"value\": {\"idx\": 1}}, "
    "{\"state\": {\"idx\": 1}, \"value\": {\"idx\": 2}}, "
    "{\"state\": {\"idx\": 2}, \"value\": {\"idx\": 0}}]}]}";

static clave_program *load_text(const char *name, const char *text) {
  char *path = in_folder(name);
  clave_program *program;
  write_bytes(path, text, strlen(text));
  good(clave_program_load(path, NULL, &program));
  free(path);
  return program;
}

/* Each state gets the value that the next state had before the run. */
static void check_rotation(const char *name) {
  clave_device *device;
  clave_session *session;
  clave_program *program = load_text("rotating.json", rotating_program);
  good(clave_device_open(name, NULL, &device));
  good(clave_session_create(program, device, NULL, &session));
  for (int i = 0; i < 3; i++)
    good(clave_session_write_state(session, (uint32_t)i, (int[]){i, i, i}, 3 * sizeof(int)));
  for (int run = 1; run < 5; run++) {
    good(clave_session_run(session, "forward"));
    for (int i = 0; i < 3; i++) {
      int got[3], want = (i + run) % 3;
      good(clave_session_read_state(session, (uint32_t)i, got, sizeof got));
      for (int k = 0; k < 3; k++) assert_int_equal(got[k], want);
    }
  }
  clave_session_destroy(session);
  clave_program_destroy(program);
  clave_device_destroy(device);
}

static void test_states_rotate(void **state) {
  (void)state;
  on_both(check_rotation);
}

#define SUM(a, b, out)                                                                         \
  "{\"op_type\": \"Elementwise\", \"op\": {\"inputs\": [{\"idx\": " a "}, {\"idx\": " b        \
  "}], "                                                                                       \
  "\"steps\": [{\"kind\": \"add\", \"dtype\": \"I32\", \"operands\": ["                        \
  "{\"source\": \"input\", \"index\": 0}, {\"source\": \"input\", \"index\": 1}]}], \"out\": " \
  "{\"idx\": " out "}}}"
#define I32_OF_3(name) "{\"dtype\": \"I32\", \"shape\": [{\"literal\": 3}], \"name\": \"" name "\"}"

/* y = a + b + a, in two nodes that are fused. The states a and b are swapped. */
static const char joined_program[] =
    "{\"version\": 2, \"tensors\": [" I32_OF_3("y") ", " I32_OF_3("a") ", " I32_OF_3(
        "b") ", " I32_OF_3("sum") "], \"n_outputs\": 1, \"n_state\": 2, \"chains\": "
                              "[{\"instructions\": [" SUM("1", "2", "3") ", " SUM(
                                  "3", "1",
                                  "0") "]}], \"methods\": [{\"name\": \"forward\", "
                                       "\"outputs\": [{\"name\": \"y\", \"tensor\": "
                                       "{\"idx\": 0}}], \"updates\": [{\"state\": "
                                       "{\"idx\": 1}, \"value\": {\"idx\": 2}}, "
                                       "{\"state\": {\"idx\": 2}, \"value\": "
                                       "{\"idx\": 1}}]}]}";

static void count_timing(void *ctx, const clave_timing *timing) {
  uint32_t *counts = ctx; /* counts by node; [2]: of state updates */
  assert_true(timing->node <= 2);
  assert_int_equal(strcmp(timing->name, "state update") == 0, timing->node == 2);
  counts[timing->node]++;
}

/* State updates are numbered after all nodes of the program, however many nodes were fused. */
static void test_timings_of_updates(void **state) {
  (void)state;
  clave_device *device;
  clave_session *session;
  uint32_t counts[3] = {0};
  clave_program *program = load_text("joined.json", joined_program);
  const clave_session_options options = {.size = sizeof options, .profile = true};
  good(clave_device_open("cpu", NULL, &device));
  good(clave_session_create(program, device, &options, &session));
  good(clave_session_run(session, "forward"));
  good(clave_session_timings(session, count_timing, counts));
  assert_int_equal(counts[0] + counts[1], 1);
  assert_true(counts[2] >= 2);
  clave_session_destroy(session);
  clave_program_destroy(program);
  clave_device_destroy(device);
}

static clave_peak peak_of(const char *device, clave_dtype dtype, double flops, double bytes) {
  return (clave_peak){.size = sizeof(clave_peak),
                      .device = device,
                      .dtype = dtype,
                      .flops_a_second = flops,
                      .bytes_a_second = bytes};
}

/* The peak of the node's own dtype is used, or of F32 if none exists. */
static void look_at_work(void *ctx, const clave_timing *timing) {
  const double *want = ctx; /* compute_ns, memory_ns */
  if (timing->kind != CLAVE_TIMING_NODE) return;
  assert_string_equal(timing->shapes, "I32 [3], I32 [3] -> I32 [3]");
  assert_int_equal(timing->dtype, CLAVE_I32);
  assert_true(timing->flops > 0 && timing->bytes > 0);
  assert_true(fabs(timing->compute_ns - timing->flops * want[0]) < 1e-9);
  assert_true(fabs(timing->memory_ns - timing->bytes * want[1]) < 1e-9);
}

static void test_peaks_limit_timings(void **state) {
  (void)state;
  clave_device *device;
  clave_session *session;
  clave_device_info info = {.size = sizeof info};
  clave_program *program = load_text("joined.json", joined_program);
  const clave_session_options options = {.size = sizeof options, .profile = true};
  good(clave_device_open("cpu", NULL, &device));
  good(clave_device_get_info(device, &info));
  good(clave_session_create(program, device, &options, &session));
  good(clave_session_run(session, "forward"));
  good(clave_session_timings(session, look_at_work, (double[]){0, 0}));
  const clave_peak peaks[] = {peak_of("another", CLAVE_I32, 1e3, 1e3),
                              peak_of(info.name, CLAVE_F32, 1e9, 5e8),
                              peak_of(info.name, CLAVE_I32, 2e9, 4e9)};
  good(clave_session_set_peaks(session, peaks, 2));
  good(clave_session_timings(session, look_at_work, (double[]){1, 2}));
  good(clave_session_set_peaks(session, peaks, 3));
  good(clave_session_timings(session, look_at_work, (double[]){0.5, 0.25}));
  good(clave_session_set_peaks(session,
                               &(clave_peak){.size = sizeof(clave_peak), .device = info.name}, 1));
  good(clave_session_timings(session, look_at_work, (double[]){0, 0}));
  good(clave_session_set_peaks(session, NULL, 0));
  good(clave_session_timings(session, look_at_work, (double[]){0, 0}));
  clave_session_destroy(session);
  clave_program_destroy(program);
  clave_device_destroy(device);
}

static void add_attention(void *ctx, const clave_timing *timing) {
  if (strcmp(timing->op, "attention_cached") == 0) *(double *)ctx += timing->flops;
}

/* A token sees the keys up to its own position, which is a tensor's value. */
static void test_attention_counts_by_position(void **state) {
  (void)state;
  clave_device *device;
  clave_program *program;
  clave_session *session;
  const clave_session_options options = {.size = sizeof options, .profile = true};
  const int64_t one[] = {1, 1};
  int64_t token = 5, position = 0;
  const clave_tensor tokens = clave_tensor_make(CLAVE_I64, 2, one, &token),
                     at = clave_tensor_make(CLAVE_I64, 0, NULL, &position);
  double first = 0;
  good(clave_device_open("cpu", NULL, &device));
  good(clave_program_load("examples/tinylm/tinylm.clv", NULL, &program));
  good(clave_session_create(program, device, &options, &session));
  good(clave_session_set_input(session, NULL, 0, &tokens));
  for (; position < 4; position++) {
    double flops = 0;
    good(clave_session_set_input(session, NULL, 1, &at));
    good(clave_session_run(session, NULL));
    good(clave_session_timings(session, add_attention, &flops));
    if (position == 0) first = flops;
    assert_true(first > 0 && flops == first * (double)(position + 1));
  }
  clave_session_destroy(session);
  clave_program_destroy(program);
  clave_device_destroy(device);
}

static void test_peaks_that_are_none(void **state) {
  (void)state;
  clave_device *device;
  clave_session *session;
  clave_program *program = load_text("joined.json", joined_program);
  good(clave_device_open("cpu", NULL, &device));
  good(clave_session_create(program, device, NULL, &session));
  const clave_peak peak = peak_of("cpu", CLAVE_F32, 1, 1);
  clave_peak peaks[] = {peak, peak};
  peaks[1].size = 8;
  expect_too_small(clave_session_set_peaks(session, peaks, 2), "clave_peak", 8);
  peaks[1] = peak_of(NULL, CLAVE_F32, 1, 1);
  expect_invalid(clave_session_set_peaks(session, peaks, 2), "a peak: the device is NULL");
  peaks[1] = peak_of("cpu", (clave_dtype)99, 1, 1);
  expect_invalid(clave_session_set_peaks(session, peaks, 2), "a peak: unknown dtype 99");
  const double bad[] = {-1, (double)NAN, (double)INFINITY};
  for (int i = 0; i < 3; i++) {
    peaks[1] = peak_of("cpu", CLAVE_F32, bad[i], 1);
    expect_invalid(clave_session_set_peaks(session, peaks, 2),
                   "expected finite numbers of at least 0, got");
    peaks[1] = peak_of("cpu", CLAVE_F32, 1, bad[i]);
    expect_invalid(clave_session_set_peaks(session, peaks, 2),
                   "expected finite numbers of at least 0, got");
  }
  clave_session_destroy(session);
  clave_program_destroy(program);
  clave_device_destroy(device);
}

static const char random_program[] =
    "{\"version\": 2, \"tensors\": [{\"dtype\": \"F32\", \"shape\": [{\"literal\": 4}], \"name\": "
    "\"y\"}], "
    "\"n_outputs\": 1, \"chains\": [{\"instructions\": [{\"op_type\": \"Random\", \"op\": "
    "{\"kind\": "
    "\"uniform\", \"out\": {\"idx\": 0}}}]}], \"methods\": [{\"name\": \"forward\", \"outputs\": "
    "[{\"name\": "
    "\"y\", \"tensor\": {\"idx\": 0}}]}]}";

static void draw(clave_session *session, float out[4]) {
  clave_tensor tensor;
  good(clave_session_run(session, "forward"));
  good(clave_session_output(session, "forward", 0, &tensor));
  memcpy(out, tensor.data, 4 * sizeof *out);
}

/* A copied session continues with the same random numbers as its origin. */
static void test_random_goes_on(void **state) {
  (void)state;
  clave_device *device;
  clave_session *session, *copy;
  float first[4], second[4], copied[4];
  clave_program *program = load_text("random.json", random_program);
  good(clave_device_open("cpu", NULL, &device));
  good(clave_session_create(program, device, NULL, &session));
  good(clave_session_create(program, device, NULL, &copy));
  draw(session, first);
  good(clave_session_copy_state(copy, session));
  draw(session, second);
  draw(copy, copied);
  assert_memory_not_equal(first, second, sizeof first);
  assert_memory_equal(second, copied, sizeof second);
  good(clave_session_reset(copy));
  draw(copy, copied);
  assert_memory_equal(first, copied, sizeof first);
  clave_session_destroy(session);
  clave_session_destroy(copy);
  clave_device_destroy(device);
  clave_program_destroy(program);
}

static void test_bad_state(void **state) {
  (void)state;
  clave_program *program = open_sample(), *other_program = open_sample();
  clave_device *device;
  clave_session *session, *other_session;
  clave_tensor_info info = {.size = sizeof info};
  int64_t count[3] = {0};
  good(clave_device_open("cpu", NULL, &device));
  good(clave_session_create(program, device, NULL, &session));
  good(clave_session_create(other_program, device, NULL, &other_session));
  expect_error(clave_session_read_state(session, 1, count, 16),
               "state 1 is out of range: the program has 1");
  expect_error(clave_session_read_state(session, 0, count, 24),
               "state 0: expected 16 bytes, got 24");
  expect_error(clave_session_write_state(session, 0, count, 0),
               "state 0: expected 16 bytes, got 0");
  expect_error(clave_session_copy_state(session, other_session), "different programs");
  expect_error(clave_program_state(program, 1, &info),
               "index 1 is out of range: the program has 1 states");
  clave_session_destroy(session);
  clave_session_destroy(other_session);
  clave_device_destroy(device);
  clave_program_destroy(program);
  clave_program_destroy(other_program);
}

static void test_sections_and_metadata(void **state) {
  (void)state;
  clave_program *program = open_sample(), *other_program;
  clave_program_info info = {.size = sizeof info};
  char *path = in_folder("carries.clv"), tag[] = "AAAA";
  size_t size;
  assert_null(clave_program_section(program, "TOKN", &size));
  good(clave_program_set_section(program, "TOKN", "first", 5));
  good(clave_program_set_section(program, "TOKN", "a\0b", 3));
  good(clave_program_set_section(program, "Mine", "x", 1));
  good(clave_program_set_section(program, "Mine", NULL, 0));
  good(clave_program_set_section(program, "none", "", 0));
  good(clave_program_set_metadata(program, "{\"llm\": {\"bos\": 1}}"));
  expect_error(clave_program_set_metadata(program, "{\"llm\": "), "metadata");
  expect_error(clave_program_set_section(program, "PROG", "x", 1), "not a section tag");
  expect_error(clave_program_set_section(program, "toolong", "x", 1), "not a section tag");
  good(clave_program_save(program, path));
  good(clave_program_load(path, NULL, &other_program));
  const void *data = clave_program_section(other_program, "TOKN", &size);
  assert_int_equal(size, 3);
  assert_memory_equal(data, "a\0b", 3);
  assert_null(clave_program_section(other_program, "Mine", &size));
  assert_non_null(clave_program_section(other_program, "none", &size));
  assert_int_equal(size, 0);
  good(clave_program_get_info(other_program, &info));
  assert_string_equal(info.metadata, "{\"llm\": {\"bos\": 1}}");
  clave_status st = NULL;
  for (int i = 0; i < 64 && !st; i++, tag[i % 4]++)
    st = clave_program_set_section(other_program, tag, "", 0);
  expect_error(st, "the program has more than 59 sections");
  clave_program_destroy(program);
  clave_program_destroy(other_program);
  free(path);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_state_on_cpu),
      cmocka_unit_test(test_state_on_opencl),
      cmocka_unit_test(test_every_state_is_copied),
      cmocka_unit_test(test_states_rotate),
      cmocka_unit_test(test_timings_of_updates),
      cmocka_unit_test(test_peaks_limit_timings),
      cmocka_unit_test(test_peaks_that_are_none),
      cmocka_unit_test(test_attention_counts_by_position),
      cmocka_unit_test(test_random_goes_on),
      cmocka_unit_test(test_bad_state),
      cmocka_unit_test(test_sections_and_metadata),
  };
  return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
