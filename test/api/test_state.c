/* A session's state read, written and copied to other sessions; what a program carries beside
 * itself. */
#include "test/serialize/sample.h"

#include "clave_host.h"
#include "test/api/expect.h"

/* The sample counts the runs of "forward" in its only state, from `sample_start` on. */
static clave_program *open_sample(void) {
  program *p;
  clave_program *out;
  char *path = in_folder("sample.clv");
  expect_good(sample_program(SAMPLE_PROGRAM, &p));
  expect_good(program_save(p, path));
  program_destroy(p);
  good(clave_program_load(path, NULL, &out));
  free(path);
  return out;
}

static void run_once(clave_session *s) {
  float x[3] = {1, 2, 3};
  int64_t dims[] = {1, 3};
  clave_tensor t = clave_tensor_make(CLAVE_F32, 2, dims, x);
  good(clave_session_set_input(s, "forward", 0, &t));
  good(clave_session_run(s, "forward"));
}

static int64_t count_of(clave_session *s) {
  int64_t count[2];
  good(clave_session_read_state(s, 0, count, sizeof count));
  return count[0] - sample_start[0];
}

static void check_devices(const char *first, const char *second) {
  clave_program *p = open_sample();
  clave_device *devices[2];
  clave_session *a, *b;
  clave_tensor_info info = {.size = sizeof info};
  good(clave_device_open(first, NULL, &devices[0]));
  good(clave_device_open(second, NULL, &devices[1]));
  good(clave_session_create(p, devices[0], NULL, &a));
  good(clave_session_create(p, devices[strcmp(first, second) != 0], NULL, &b));
  good(clave_program_state(p, 0, &info));
  assert_string_equal(info.name, "count");
  assert_int_equal(info.dims[0], 2);
  for (int i = 0; i < 3; i++) run_once(a);
  assert_int_equal(count_of(a), 3);
  assert_int_equal(count_of(b), 0);
  good(clave_session_copy_state(b, a));
  good(clave_session_copy_state(b, b));
  run_once(b); /* independent from now on */
  assert_int_equal(count_of(a), 3);
  assert_int_equal(count_of(b), 4);
  int64_t other[2] = {sample_start[0] + 40, 0};
  good(clave_session_write_state(a, 0, other, sizeof other));
  run_once(a);
  assert_int_equal(count_of(a), 41);
  good(clave_session_reset(a));
  assert_int_equal(count_of(a), 0);
  clave_session_destroy(a);
  clave_session_destroy(b);
  for (int i = 0; i < 2; i++) clave_device_destroy(devices[i]);
  clave_program_destroy(p);
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

/* Runs a check on the CPU backend and on OpenCL, if that is there. */
static void on_both(void (*check)(const char *device)) {
  check("cpu");
  if (!clave_devices_hint()) check("opencl");
}

/* All of them, each with bytes of its own. */
static void check_copies(const char *name) {
  clave_device *device;
  clave_program *p;
  clave_session *a, *b;
  clave_program_info info = {.size = sizeof info};
  good(clave_device_open(name, NULL, &device));
  good(clave_program_load("examples/tinylm/tinylm.clv", NULL, &p));
  good(clave_session_create(p, device, NULL, &a));
  good(clave_session_create(p, device, NULL, &b));
  good(clave_program_get_info(p, &info));
  assert_true(info.n_state > 1);
  uint8_t *bytes = malloc(info.state_bytes), *copied = malloc(info.state_bytes);
  for (int reading = 0; reading < 2; reading++) {
    for (uint32_t i = 0; i < info.n_state; i++) {
      clave_tensor_info t = {.size = sizeof t};
      good(clave_program_state(p, i, &t));
      size_t n = clave_dtype_size(t.dtype);
      for (int k = 0; k < t.rank; k++) n *= (size_t)t.dims[k];
      memset(bytes, (int)i + 1, n);
      if (reading) good(clave_session_read_state(b, i, copied, n));
      if (reading) assert_memory_equal(copied, bytes, n);
      if (!reading) good(clave_session_write_state(a, i, bytes, n));
    }
    good(clave_session_copy_state(b, a));
  }
  free(bytes);
  free(copied);
  clave_session_destroy(a);
  clave_session_destroy(b);
  clave_program_destroy(p);
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
  clave_program *p;
  write_bytes(path, text, strlen(text));
  good(clave_program_load(path, NULL, &p));
  free(path);
  return p;
}

/* Each takes the value that the next one had before the run. */
static void check_rotation(const char *name) {
  clave_device *device;
  clave_session *s;
  clave_program *p = load_text("rotating.json", rotating_program);
  good(clave_device_open(name, NULL, &device));
  good(clave_session_create(p, device, NULL, &s));
  for (int i = 0; i < 3; i++)
    good(clave_session_write_state(s, (uint32_t)i, (int[]){i, i, i}, 3 * sizeof(int)));
  for (int run = 1; run < 5; run++) {
    good(clave_session_run(s, "forward"));
    for (int i = 0; i < 3; i++) {
      int got[3], want = (i + run) % 3;
      good(clave_session_read_state(s, (uint32_t)i, got, sizeof got));
      for (int k = 0; k < 3; k++) assert_int_equal(got[k], want);
    }
  }
  clave_session_destroy(s);
  clave_program_destroy(p);
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

/* y = a + b + a, in two nodes that become one; a and b change places. */
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

static void count_timing(void *ctx, const clave_timing *t) {
  uint32_t *counts = ctx; /* by node; [2]: updates of state */
  assert_true(t->node <= 2);
  assert_int_equal(strcmp(t->name, "state update") == 0, t->node == 2);
  counts[t->node]++;
}

/* Updates have the number behind all nodes of the program, however many of them were joined. */
static void test_timings_of_updates(void **state) {
  (void)state;
  clave_device *device;
  clave_session *s;
  uint32_t counts[3] = {0};
  clave_program *p = load_text("joined.json", joined_program);
  const clave_session_options o = {.size = sizeof o, .profile = true};
  good(clave_device_open("cpu", NULL, &device));
  good(clave_session_create(p, device, &o, &s));
  good(clave_session_run(s, "forward"));
  good(clave_session_timings(s, count_timing, counts));
  assert_int_equal(counts[0] + counts[1], 1);
  assert_true(counts[2] >= 2);
  clave_session_destroy(s);
  clave_program_destroy(p);
  clave_device_destroy(device);
}

static clave_peak peak_of(const char *device, clave_dtype dtype, double flops, double bytes) {
  return (clave_peak){.size = sizeof(clave_peak),
                      .device = device,
                      .dtype = dtype,
                      .flops_a_second = flops,
                      .bytes_a_second = bytes};
}

/* The peak of the node's own dtype counts, else F32's. */
static void look_at_work(void *ctx, const clave_timing *t) {
  const double *want = ctx; /* compute_ns, memory_ns */
  if (t->kind != CLAVE_TIMING_NODE) return;
  assert_string_equal(t->shapes, "I32 [3], I32 [3] -> I32 [3]");
  assert_int_equal(t->dtype, CLAVE_I32);
  assert_true(t->flops > 0 && t->bytes > 0);
  assert_true(fabs(t->compute_ns - t->flops * want[0]) < 1e-9);
  assert_true(fabs(t->memory_ns - t->bytes * want[1]) < 1e-9);
}

static void test_peaks_limit_timings(void **state) {
  (void)state;
  clave_device *device;
  clave_session *s;
  clave_device_info info = {.size = sizeof info};
  clave_program *p = load_text("joined.json", joined_program);
  const clave_session_options o = {.size = sizeof o, .profile = true};
  good(clave_device_open("cpu", NULL, &device));
  good(clave_device_get_info(device, &info));
  good(clave_session_create(p, device, &o, &s));
  good(clave_session_run(s, "forward"));
  good(clave_session_timings(s, look_at_work, (double[]){0, 0}));
  const clave_peak peaks[] = {peak_of("another", CLAVE_I32, 1e3, 1e3),
                              peak_of(info.name, CLAVE_F32, 1e9, 5e8),
                              peak_of(info.name, CLAVE_I32, 2e9, 4e9)};
  good(clave_session_set_peaks(s, peaks, 2));
  good(clave_session_timings(s, look_at_work, (double[]){1, 2}));
  good(clave_session_set_peaks(s, peaks, 3));
  good(clave_session_timings(s, look_at_work, (double[]){0.5, 0.25}));
  good(clave_session_set_peaks(s, &(clave_peak){.size = sizeof(clave_peak), .device = info.name},
                               1));
  good(clave_session_timings(s, look_at_work, (double[]){0, 0}));
  good(clave_session_set_peaks(s, NULL, 0));
  good(clave_session_timings(s, look_at_work, (double[]){0, 0}));
  clave_session_destroy(s);
  clave_program_destroy(p);
  clave_device_destroy(device);
}

static void add_attention(void *ctx, const clave_timing *t) {
  if (strcmp(t->op, "attention_cached") == 0) *(double *)ctx += t->flops;
}

/* A token sees the keys up to its own position, which is a tensor's value. */
static void test_attention_counts_by_position(void **state) {
  (void)state;
  clave_device *device;
  clave_program *p;
  clave_session *s;
  const clave_session_options o = {.size = sizeof o, .profile = true};
  const int64_t one[] = {1, 1};
  int64_t token = 5, position = 0;
  const clave_tensor tokens = clave_tensor_make(CLAVE_I64, 2, one, &token),
                     at = clave_tensor_make(CLAVE_I64, 0, NULL, &position);
  double first = 0;
  good(clave_device_open("cpu", NULL, &device));
  good(clave_program_load("examples/tinylm/tinylm.clv", NULL, &p));
  good(clave_session_create(p, device, &o, &s));
  good(clave_session_set_input(s, NULL, 0, &tokens));
  for (; position < 4; position++) {
    double flops = 0;
    good(clave_session_set_input(s, NULL, 1, &at));
    good(clave_session_run(s, NULL));
    good(clave_session_timings(s, add_attention, &flops));
    if (position == 0) first = flops;
    assert_true(first > 0 && flops == first * (double)(position + 1));
  }
  clave_session_destroy(s);
  clave_program_destroy(p);
  clave_device_destroy(device);
}

static void test_peaks_that_are_none(void **state) {
  (void)state;
  clave_device *device;
  clave_session *s;
  clave_program *p = load_text("joined.json", joined_program);
  good(clave_device_open("cpu", NULL, &device));
  good(clave_session_create(p, device, NULL, &s));
  const clave_peak right = peak_of("cpu", CLAVE_F32, 1, 1);
  clave_peak wrong[] = {right, right};
  wrong[1].size = 8;
  expect_too_small(clave_session_set_peaks(s, wrong, 2), "clave_peak", 8);
  wrong[1] = peak_of(NULL, CLAVE_F32, 1, 1);
  expect_invalid(clave_session_set_peaks(s, wrong, 2), "a peak has no device");
  wrong[1] = peak_of("cpu", (clave_dtype)99, 1, 1);
  expect_invalid(clave_session_set_peaks(s, wrong, 2), "a peak has dtype 99");
  const double bad[] = {-1, (double)NAN, (double)INFINITY};
  for (int i = 0; i < 3; i++) {
    wrong[1] = peak_of("cpu", CLAVE_F32, bad[i], 1);
    expect_invalid(clave_session_set_peaks(s, wrong, 2), "expected finite numbers from 0 on, got");
    wrong[1] = peak_of("cpu", CLAVE_F32, 1, bad[i]);
    expect_invalid(clave_session_set_peaks(s, wrong, 2), "expected finite numbers from 0 on, got");
  }
  clave_session_destroy(s);
  clave_program_destroy(p);
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

static void draw(clave_session *s, float out[4]) {
  clave_tensor y;
  good(clave_session_run(s, "forward"));
  good(clave_session_output(s, "forward", 0, &y));
  memcpy(out, y.data, 4 * sizeof *out);
}

/* A copy goes on with the random numbers where its origin is. */
static void test_random_goes_on(void **state) {
  (void)state;
  clave_device *device;
  clave_session *a, *b;
  float first[4], second[4], copied[4];
  clave_program *p = load_text("random.json", random_program);
  good(clave_device_open("cpu", NULL, &device));
  good(clave_session_create(p, device, NULL, &a));
  good(clave_session_create(p, device, NULL, &b));
  draw(a, first);
  good(clave_session_copy_state(b, a));
  draw(a, second);
  draw(b, copied);
  assert_memory_not_equal(first, second, sizeof first);
  assert_memory_equal(second, copied, sizeof second);
  good(clave_session_reset(b));
  draw(b, copied);
  assert_memory_equal(first, copied, sizeof first);
  clave_session_destroy(a);
  clave_session_destroy(b);
  clave_device_destroy(device);
  clave_program_destroy(p);
}

static void test_bad_state(void **state) {
  (void)state;
  clave_program *p = open_sample(), *q = open_sample();
  clave_device *device;
  clave_session *a, *b;
  clave_tensor_info info = {.size = sizeof info};
  int64_t count[3] = {0};
  good(clave_device_open("cpu", NULL, &device));
  good(clave_session_create(p, device, NULL, &a));
  good(clave_session_create(q, device, NULL, &b));
  expect_error(clave_session_read_state(a, 1, count, 16), "state 1 of a program with 1");
  expect_error(clave_session_read_state(a, 0, count, 24), "state 0: expected 16 bytes, got 24");
  expect_error(clave_session_write_state(a, 0, count, 0), "state 0: expected 16 bytes, got 0");
  expect_error(clave_session_copy_state(a, b), "different programs");
  expect_error(clave_program_state(p, 1, &info), "state 1 of a program with 1");
  clave_session_destroy(a);
  clave_session_destroy(b);
  clave_device_destroy(device);
  clave_program_destroy(p);
  clave_program_destroy(q);
}

static void test_sections_and_metadata(void **state) {
  (void)state;
  clave_program *p = open_sample(), *q;
  clave_program_info info = {.size = sizeof info};
  char *path = in_folder("carries.clv"), tag[] = "AAAA";
  size_t size;
  assert_null(clave_program_section(p, "TOKN", &size));
  good(clave_program_set_section(p, "TOKN", "first", 5));
  good(clave_program_set_section(p, "TOKN", "a\0b", 3));
  good(clave_program_set_section(p, "Mine", "x", 1));
  good(clave_program_set_section(p, "Mine", NULL, 0));
  good(clave_program_set_section(p, "none", "", 0));
  good(clave_program_set_metadata(p, "{\"llm\": {\"bos\": 1}}"));
  expect_error(clave_program_set_metadata(p, "{\"llm\": "), "metadata");
  expect_error(clave_program_set_section(p, "PROG", "x", 1), "not a section's tag");
  expect_error(clave_program_set_section(p, "toolong", "x", 1), "not a section's tag");
  good(clave_program_save(p, path));
  good(clave_program_load(path, NULL, &q));
  const void *data = clave_program_section(q, "TOKN", &size);
  assert_int_equal(size, 3);
  assert_memory_equal(data, "a\0b", 3);
  assert_null(clave_program_section(q, "Mine", &size));
  assert_non_null(clave_program_section(q, "none", &size));
  assert_int_equal(size, 0);
  good(clave_program_get_info(q, &info));
  assert_string_equal(info.metadata, "{\"llm\": {\"bos\": 1}}");
  clave_status st = NULL;
  for (int i = 0; i < 64 && !st; i++, tag[i % 4]++) st = clave_program_set_section(q, tag, "", 0);
  expect_error(st, "more than 59 sections");
  clave_program_destroy(p);
  clave_program_destroy(q);
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
