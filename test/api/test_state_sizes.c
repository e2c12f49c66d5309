/* Tests state whose size a session chooses: it is resized, copied and refused. */
#include "test/serialize/sample.h"

#include "test/api/expect.h"

/* Two states, I32 (2, n, 3) with n from 1 to 8, which each run swaps. */
#define STATE(name)                                                              \
  "{\"dtype\": \"I32\", \"shape\": [{\"literal\": 2}, {\"vid\": {\"idx\": 0}}, " \
  "{\"literal\": 3}], \"name\": \"" name "\"}"
static const char program_text[] =
    "{\"version\": 2, \"tensors\": [" STATE("a") ", " STATE("b") "], "
    "\"values\": [{\"name\": \"n\", \"type\": \"int_\", \"min\": 1, \"max\": 8}], "
    "\"n_state\": 2, \"chains\": [{\"instructions\": []}], \"methods\": [{\"name\": \"forward\", "
    "\"updates\": [{\"state\": {\"idx\": 0}, \"value\": {\"idx\": 1}}, "
    "{\"state\": {\"idx\": 1}, \"value\": {\"idx\": 0}}]}]}";

enum { LARGEST = 8, ROW = 3, ROWS = 2 };

typedef struct opened {
  clave_device *device;
  clave_program *program;
  clave_session *s, *other;
} opened;

static opened open_program(const char *device) {
  opened opened;
  char *path = in_folder("sizes.json");
  write_bytes(path, program_text, strlen(program_text));
  good(clave_program_load(path, NULL, &opened.program));
  good(clave_device_open(device, NULL, &opened.device));
  good(clave_session_create(opened.program, opened.device, NULL, &opened.s));
  good(clave_session_create(opened.program, opened.device, NULL, &opened.other));
  free(path);
  return opened;
}

static void close_program(const opened *opened) {
  clave_session_destroy(opened->s);
  clave_session_destroy(opened->other);
  clave_program_destroy(opened->program);
  clave_device_destroy(opened->device);
}

static size_t bytes_of(int n) { return (size_t)(ROWS * n * ROW) * sizeof(int); }

/* Writes 100 i + 10 k + j + more at (i, k, j). */
static void write_rows(clave_session *session, uint32_t state, int n, int more) {
  int x[ROWS * LARGEST * ROW];
  for (int at = 0; at < ROWS * n * ROW; at++)
    x[at] = more + 100 * (at / (n * ROW)) + 10 * (at / ROW % n) + at % ROW;
  good(clave_session_write_state(session, state, x, bytes_of(n)));
}

/* Expects rows below `kept` as write_rows wrote them, and zeros after them. */
static void expect_rows(clave_session *session, uint32_t state, int n, int kept, int more) {
  int x[ROWS * LARGEST * ROW];
  good(clave_session_read_state(session, state, x, bytes_of(n)));
  for (int at = 0; at < ROWS * n * ROW; at++) {
    int k = at / ROW % n;
    assert_int_equal(x[at], k < kept ? more + 100 * (at / (n * ROW)) + 10 * k + at % ROW : 0);
  }
}

static uint64_t state_bytes(clave_session *session) {
  clave_memory_info info = {.size = sizeof info};
  good(clave_session_memory(session, &info));
  return info.state_bytes;
}

static void check_sizes(const char *device) {
  opened opened = open_program(device);
  clave_tensor_info info = {.size = sizeof info};
  clave_program_info program_info = {.size = sizeof program_info};
  good(clave_program_state(opened.program, 0, &info));
  assert_true(info.dims[1] == CLAVE_DYNAMIC && info.min_dims[1] == 1 && info.max_dims[1] == 8);
  assert_string_equal(info.dim_names[1], "n");
  good(clave_program_get_info(opened.program, &program_info));
  assert_int_equal(program_info.state_bytes, 2 * bytes_of(8));
  assert_int_equal(state_bytes(opened.s), 2 * bytes_of(8));

  good(clave_session_resize(opened.s, "n", 5)); /* before there is any memory */
  assert_int_equal(state_bytes(opened.s), 2 * bytes_of(5));
  expect_rows(opened.s, 0, 5, 0, 0);
  write_rows(opened.s, 0, 5, 1);
  write_rows(opened.s, 1, 5, 1000);
  good(clave_session_run(opened.s, "forward"));
  expect_rows(opened.s, 0, 5, 5, 1000);

  good(clave_session_resize(opened.s, "n", 8));
  expect_rows(opened.s, 0, 8, 5, 1000);
  expect_rows(opened.s, 1, 8, 5, 1);
  good(clave_session_run(opened.s, "forward"));
  expect_rows(opened.s, 0, 8, 5, 1);
  good(clave_session_resize(opened.s, "n", 2));
  good(clave_session_run(opened.s, "forward"));
  expect_rows(opened.s, 0, 2, 2, 1000);
  good(clave_session_resize(opened.s, "n", 4));
  expect_rows(opened.s, 1, 4, 2, 1);
  for (int n = 5; n < 9; n++) { /* the last two sizes already have schedules */
    int size = n < 7 ? n : n - 2;
    good(clave_session_resize(opened.s, "n", size));
    write_rows(opened.s, 0, size, 3000);
    write_rows(opened.s, 1, size, 2000);
    good(clave_session_run(opened.s, "forward"));
    expect_rows(opened.s, 0, size, size, 2000);
    expect_rows(opened.s, 1, size, size, 3000);
  }
  good(clave_session_resize(opened.s, "n", 2));
  good(clave_session_resize(opened.s, "n", 4));

  good(clave_session_copy_state(opened.other, opened.s)); /* with its size */
  assert_int_equal(state_bytes(opened.other), 2 * bytes_of(4));
  good(clave_session_run(opened.other, "forward"));
  expect_rows(opened.other, 0, 4, 2, 3000);
  expect_rows(opened.s, 0, 4, 2, 2000);
  good(clave_session_reset(opened.s));
  expect_rows(opened.s, 0, 4, 0, 0);
  close_program(&opened);
}

static void test_sizes_on_cpu(void **state) {
  (void)state;
  check_sizes("cpu");
}

static void test_sizes_on_opencl(void **state) {
  (void)state;
  if (clave_devices_hint()) skip();
  check_sizes("opencl");
}

static void test_bad_sizes(void **state) {
  (void)state;
  opened opened = open_program("cpu");
  int x[ROWS * LARGEST * ROW] = {0};
  expect_error(clave_session_resize(opened.s, "m", 3), "no state has a dimension named 'm'");
  expect_error(clave_session_resize(opened.s, "n", 9),
               "a dimension of state is 9; 'n' must be in [1, 8]");
  expect_error(clave_session_resize(opened.s, "n", 0), "must be in [1, 8]");
  write_rows(opened.s, 0, 8, 0);
  expect_error(clave_session_resize(opened.s, "n", -1), "must be in [1, 8]");
  expect_rows(opened.s, 0, 8, 8, 0);
  good(clave_session_resize(opened.s, "n", 3));
  expect_error(clave_session_write_state(opened.s, 0, x, bytes_of(8)),
               "state 0: expected 72 bytes, got 192");
  close_program(&opened);
}

/* Edits of the program that make its symbolic state sizes invalid: `to` replaces `from`. */
static void test_refused_programs(void **state) {
  static const struct {
    const char *from, *to, *error;
  } edits[] = {
      {", \"max\": 8", "", "dimension 1 is value 0 ('n'), which needs bounds of at least 1"},
      {"\"min\": 1", "\"min\": 0", "which needs bounds of at least 1; state 0 ('a')"},
      {"{\"literal\": 2}, {\"vid\": {\"idx\": 0}}",
       "{\"vid\": {\"idx\": 0}}, {\"vid\": {\"idx\": 0}}",
       "dimensions: expected at most one value, got 2"},
      {"\"max\": 8", "\"max\": \"4611686018427387904\"",
       "the size of the tensor overflows; state 0 ('a')"},
      {"{\"vid\": {\"idx\": 0}}", "{\"literal\": 8}", "differs in dtype or shape"},
      {"\"instructions\": []",
       "\"instructions\": [{\"op_type\": \"IntScalar\", \"op\": {\"kind\": \"add\", \"a\": "
       "{\"literal\": 1}, \"b\": {\"literal\": 1}, \"out\": {\"idx\": 0}}}]",
       "value 0 ('n') is set twice"},
  };
  (void)state;
  char *path = in_folder("refused.json"), text[2048];
  for (size_t i = 0; i < sizeof edits / sizeof edits[0]; i++) {
    clave_program *program;
    const char *at = strstr(program_text, edits[i].from);
    assert_non_null(at);
    int n = snprintf(text, sizeof text, "%.*s%s%s", (int)(at - program_text), program_text,
                     edits[i].to, at + strlen(edits[i].from));
    write_bytes(path, text, (size_t)n);
    expect_error(clave_program_load(path, NULL, &program), edits[i].error);
  }
  free(path);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_sizes_on_cpu),
      cmocka_unit_test(test_sizes_on_opencl),
      cmocka_unit_test(test_bad_sizes),
      cmocka_unit_test(test_refused_programs),
  };
  return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
