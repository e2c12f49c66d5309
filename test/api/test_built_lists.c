/* Tests the lists of the calls that build, compile, tune and run programs, with 0, 1, 2 and many
 * elements. An array without elements may be NULL. */
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "clave_builder.h"
#include "clave_compile.h"
#include "clave_host.h"
#include "clave_tune.h"
#include "expect.h"
#include "lists.h"

static clave_device *cpu;

static int open_device(void **state) {
  (void)state;
  good(clave_device_open("cpu", NULL, &cpu));
  return 0;
}

static int close_device(void **state) {
  (void)state;
  clave_device_destroy(cpu);
  return 0;
}

/* ---------------------------------------------------------------- built programs */

/* Returns the program, or NULL if building fails with an error that contains `expected`. */
static clave_program *finish(clave_builder *builder, const char *expected) {
  clave_program *program = NULL;
  clave_status st = clave_builder_finish(builder, &program);
  clave_builder_destroy(builder);
  if (expected) {
    expect_invalid(st, expected);
    assert_null(program);
  } else {
    good(st);
  }
  return program;
}

static clave_id tensor_of(clave_builder *builder, clave_slot_kind kind, const char *name,
                          int64_t size) {
  return clave_builder_tensor(builder, kind, name, CLAVE_F32, 1, &size, NULL);
}

/* Returns a builder with one input, `in`, and one output, `out`. */
static clave_builder *begin(clave_id *in, clave_id *out) {
  clave_builder *builder;
  good(clave_builder_create(&builder));
  *in = tensor_of(builder, CLAVE_SLOT_INPUT, "x", 1);
  *out = tensor_of(builder, CLAVE_SLOT_OUTPUT, "y", 1);
  return builder;
}

/* Adds an Elementwise node of so many equal steps, from inputs[0]. */
static void add_steps(clave_builder *builder, const char *kind, const clave_id *inputs,
                      size_t n_inputs, size_t n_steps, clave_id out) {
  clave_builder_op(builder, "Elementwise", "steps");
  clave_builder_set_tensors(builder, "inputs", inputs, (uint32_t)n_inputs);
  for (size_t i = 0; i < n_steps; i++) {
    const clave_operand operand = {.source = i ? CLAVE_OPERAND_STEP : CLAVE_OPERAND_INPUT,
                                   .index = (uint32_t)(i ? i - 1 : 0)};
    clave_builder_step(builder, kind, CLAVE_F32, &operand, 1);
  }
  clave_builder_set_tensor(builder, "out", out);
}

/* Returns a program whose n outputs are its negated n inputs. open: sizes are dynamic. */
static clave_program *build_arguments(size_t n, bool open) {
  clave_builder *builder;
  static clave_id x[MANY], y[MANY];
  static char names[2][MANY][24];
  good(clave_builder_create(&builder));
  for (size_t i = 0; i < n; i++) {
    char name[24];
    (void)snprintf(name, sizeof name, "n%zu", i);
    const clave_id size = open ? clave_builder_value(builder, name, CLAVE_I64, 1, 8) : 0;
    const int64_t dim = open ? 0 : 1;
    (void)snprintf(names[0][i], sizeof names[0][i], "x%zu", i);
    (void)snprintf(names[1][i], sizeof names[1][i], "y%zu", i);
    x[i] = clave_builder_tensor(builder, CLAVE_SLOT_INPUT, names[0][i], CLAVE_F32, 1, &dim, &size);
    y[i] = clave_builder_tensor(builder, CLAVE_SLOT_OUTPUT, names[1][i], CLAVE_F32, 1, &dim, &size);
  }
  clave_builder_method(builder, "forward");
  for (size_t i = 0; i < n; i++) clave_builder_input(builder, names[0][i], x[i]);
  for (size_t i = 0; i < n; i++) add_steps(builder, "neg", &x[i], 1, 1, y[i]);
  for (size_t i = 0; i < n; i++) clave_builder_output(builder, names[1][i], y[i]);
  return finish(builder, NULL);
}

static void test_inputs_and_outputs(void **state) {
  (void)state;
  EACH_COUNT(n) {
    static float values[MANY];
    clave_program *program = build_arguments(n, true);
    clave_session *session;
    clave_method_info info = {.size = sizeof info};
    good(clave_program_method(program, 0, &info));
    assert_int_equal(info.n_inputs, n);
    assert_int_equal(info.n_outputs, n);
    good(clave_session_create(program, cpu, NULL, &session));
    for (size_t i = 0; i < n; i++) {
      values[i] = (float)i;
      const clave_tensor in = clave_tensor_make(CLAVE_F32, 1, (int64_t[]){1}, &values[i]);
      good(clave_session_bind_input(session, NULL, (uint32_t)i, &in));
    }
    good(clave_session_run(session, NULL));
    for (size_t i = 0; i < n; i++) {
      clave_tensor out;
      good(clave_session_output(session, NULL, (uint32_t)i, &out));
      assert_true(*(const float *)out.data == -(float)i);
    }
    clave_session_destroy(session);
    clave_program_destroy(program);
  }
}

static void test_lists_of_tensors(void **state) {
  (void)state;
  EACH_COUNT(n) {
    clave_builder *builder;
    static clave_id xs[MANY];
    good(clave_builder_create(&builder));
    const clave_id x = tensor_of(builder, CLAVE_SLOT_INPUT, "x", 1);
    for (size_t i = 0; i < n; i++) xs[i] = x;
    const clave_id y = tensor_of(builder, CLAVE_SLOT_OUTPUT, "y", (int64_t)n);
    clave_builder_method(builder, "forward");
    clave_builder_input(builder, "x", x);
    clave_builder_op(builder, "Cat", "cat");
    clave_builder_set_tensors(builder, "xs", n ? xs : NULL, (uint32_t)n);
    clave_builder_set_tensor(builder, "out", y);
    clave_builder_output(builder, "y", y);
    clave_program_destroy(finish(builder, n ? NULL : "xs"));
  }
}

static void test_steps(void **state) {
  (void)state;
  EACH_COUNT(n) {
    clave_id x, y;
    clave_builder *builder = begin(&x, &y);
    clave_builder_method(builder, "forward");
    clave_builder_input(builder, "x", x);
    add_steps(builder, "neg", &x, 1, n, y);
    clave_builder_output(builder, "y", y);
    clave_program_destroy(finish(builder, n == 0 || n == MANY ? "steps" : NULL));
  }
}

static void test_operands(void **state) {
  (void)state;
  static clave_operand operands[MANY];
  static const char *const kinds[] = {"neg", "add", "where"};
  for (size_t wanted = 1; wanted <= 3; wanted++) EACH_COUNT(n) {
      clave_builder *builder;
      good(clave_builder_create(&builder));
      const clave_id inputs[] = {
          clave_builder_tensor(builder, CLAVE_SLOT_INPUT, "x", CLAVE_F32, 0, NULL, NULL),
          clave_builder_tensor(builder, CLAVE_SLOT_INPUT, "which", CLAVE_BOOL, 0, NULL, NULL)};
      const clave_id y =
          clave_builder_tensor(builder, CLAVE_SLOT_OUTPUT, "y", CLAVE_F32, 0, NULL, NULL);
      clave_builder_method(builder, "forward");
      clave_builder_input(builder, "x", inputs[0]);
      clave_builder_input(builder, "which", inputs[1]);
      clave_builder_op(builder, "Elementwise", "step");
      clave_builder_set_tensors(builder, "inputs", inputs, 2);
      operands[0].index = wanted == 3;
      clave_builder_step(builder, kinds[wanted - 1], CLAVE_F32, n ? operands : NULL, (uint32_t)n);
      clave_builder_set_tensor(builder, "out", y);
      clave_builder_output(builder, "y", y);
      clave_program_destroy(finish(builder, n == wanted ? NULL : "operand"));
    }
}

/* Lists of dimensions have as many numbers as the tensor has dimensions. */
static void test_sizes(void **state) {
  (void)state;
  static int64_t ones[MANY];
  static const clave_id none[MANY];
  static int32_t axes[MANY];
  for (int i = 0; i < MANY; i++) {
    axes[i] = i;
    ones[i] = 1;
  }
  for (int named = 0; named < 2; named++) EACH_COUNT(n) {
      clave_builder *builder;
      const int rank = n < CLAVE_MAX_RANK ? (int)n : 1;
      good(clave_builder_create(&builder));
      const clave_id x = clave_builder_tensor(builder, CLAVE_SLOT_INPUT, "x", CLAVE_F32, rank,
                                              rank ? ones : NULL, NULL);
      const clave_id y = clave_builder_tensor(builder, CLAVE_SLOT_OUTPUT, "y", CLAVE_F32, rank,
                                              rank ? ones : NULL, named ? none : NULL);
      const clave_id t = clave_builder_tensor(builder, CLAVE_SLOT_TEMPORARY, "t", CLAVE_F32, rank,
                                              rank ? ones : NULL, named ? none : NULL);
      clave_builder_method(builder, "forward");
      clave_builder_input(builder, "x", x);
      clave_builder_op(builder, "Reshape", "reshape");
      clave_builder_set_tensor(builder, "x", x);
      clave_builder_set_sizes(builder, "shape", n ? ones : NULL, named ? none : NULL, (uint32_t)n);
      clave_builder_set_tensor(builder, "out", t);
      clave_builder_op(builder, "Permute", "permute");
      clave_builder_set_tensor(builder, "x", t);
      clave_builder_set_ints(builder, "dims", n ? axes : NULL, (uint32_t)n);
      clave_builder_set_tensor(builder, "out", y);
      clave_builder_output(builder, "y", y);
      clave_program_destroy(finish(builder, n == MANY ? "reshape" : NULL));
    }
}

/* A While with so many carried tensors, whose body never runs. */
static void test_bodies(void **state) {
  (void)state;
  EACH_COUNT(n) {
    clave_builder *builder;
    static char names[2][MANY][24];
    static clave_id x[MANY], y[MANY], args[2][MANY], results[MANY];
    good(clave_builder_create(&builder));
    for (size_t i = 0; i < n; i++) {
      (void)snprintf(names[0][i], sizeof names[0][i], "x%zu", i);
      (void)snprintf(names[1][i], sizeof names[1][i], "y%zu", i);
      x[i] = tensor_of(builder, CLAVE_SLOT_INPUT, names[0][i], 1);
      y[i] = tensor_of(builder, CLAVE_SLOT_OUTPUT, names[1][i], 1);
      for (int k = 0; k < 2; k++) args[k][i] = tensor_of(builder, CLAVE_SLOT_TEMPORARY, "", 1);
      results[i] = tensor_of(builder, CLAVE_SLOT_TEMPORARY, "", 1);
    }
    const clave_id never =
        clave_builder_tensor(builder, CLAVE_SLOT_TEMPORARY, "", CLAVE_BOOL, 0, NULL, NULL);
    clave_builder_method(builder, "forward");
    for (size_t i = 0; i < n; i++) clave_builder_input(builder, names[0][i], x[i]);
    const clave_id condition =
        clave_builder_body(builder, "condition", n ? args[0] : NULL, (uint32_t)n);
    clave_builder_op(builder, "Full", "never");
    clave_builder_set_int(builder, "int_value", 0);
    clave_builder_set_tensor(builder, "out", never);
    clave_builder_end_body(builder, &never, 1);
    const clave_id body = clave_builder_body(builder, "body", n ? args[1] : NULL, (uint32_t)n);
    for (size_t i = 0; i < n; i++) add_steps(builder, "neg", &args[1][i], 1, 1, results[i]);
    clave_builder_end_body(builder, n ? results : NULL, (uint32_t)n);
    clave_builder_op(builder, "While", "loop");
    clave_builder_set_body(builder, "condition_chain", condition);
    clave_builder_set_body(builder, "body_chain", body);
    clave_builder_set_tensors(builder, "args", n ? x : NULL, (uint32_t)n);
    clave_builder_set_tensors(builder, "results", n ? y : NULL, (uint32_t)n);
    for (size_t i = 0; i < n; i++) clave_builder_output(builder, names[1][i], y[i]);
    clave_program_destroy(finish(builder, NULL));
  }
}

static void test_methods(void **state) {
  (void)state;
  EACH_COUNT(n) {
    clave_id x, y;
    clave_builder *builder = begin(&x, &y);
    for (size_t i = 0; i < n; i++) {
      char name[24];
      (void)snprintf(name, sizeof name, "m%zu", i);
      clave_builder_method(builder, name);
      clave_builder_input(builder, "x", x);
      add_steps(builder, "neg", &x, 1, 1, y);
      clave_builder_output(builder, "y", y);
    }
    clave_program_destroy(finish(builder, n ? NULL : "method"));
  }
}

/* ---------------------------------------------------------------- compiling, tuning, devices */

static void test_dims_of_compile(void **state) {
  (void)state;
  static clave_compile_dim dims[MANY + 1];
  static char names[MANY + 1][24];
  char folder[64];
  uint64_t bytes;
  (void)snprintf(folder, sizeof folder, "/tmp/clave_lists_%ld.c", (long)getpid());
  for (int i = 0; i <= MANY; i++) {
    (void)snprintf(names[i], sizeof names[i], "n%d", i);
    dims[i] = (clave_compile_dim){names[i], 3};
  }
  EACH_COUNT(n) {
    clave_program *program = build_arguments(n, true);
    clave_compile_options options = {
        .size = sizeof options, .dims = n ? dims : NULL, .n_dims = (uint32_t)n};
    good(clave_compile_sources(program, folder, &options));
    assert_true(folder_remove(folder, &bytes));
    options.dims = dims;
    options.n_dims++; /* a dimension that the program lacks */
    expect_invalid(clave_compile_sources(program, folder, &options), names[n]);
    dims[n].name = names[0]; /* one twice */
    if (n) expect_invalid(clave_compile_sources(program, folder, &options), "n0");
    dims[n].name = names[n];
    clave_program_destroy(program);
  }
}

static void test_rows_of_tuning(void **state) {
  (void)state;
  clave_device *device;
  const clave_device_options options = {.size = sizeof options, .cache_dir = "off"};
  good(clave_device_open("cpu", &options, &device));
  good(clave_tuning_clear(device));
  EACH_COUNT(n) {
    clave_tuning_row row = {.size = sizeof row};
    clave_device_info info = {.size = sizeof info};
    for (size_t i = 0; i < n; i++) {
      char key[24];
      (void)snprintf(key, sizeof key, "%zu", i);
      good(clave_tuning_put(device, "matmul", key, "none"));
    }
    good(clave_device_get_info(device, &info));
    assert_int_equal(info.n_tuned, n);
    for (uint32_t i = 0; i < n; i++) good(clave_tuning_get(device, i, &row));
    expect_invalid(clave_tuning_get(device, (uint32_t)n, &row), "row");
    good(clave_tuning_clear(device));
  }
  clave_device_destroy(device);
}

static bool count_event(void *ctx, const clave_tune_event *event) {
  assert_int_equal(event->how, CLAVE_TUNE_BY_RULE);
  ++*(uint32_t *)ctx;
  return true;
}

/* Tunes a program with so many products, all of different sizes. */
static void test_choices_of_tuning(void **state) {
  (void)state;
  enum { FEW = 12 };
  uint32_t before = 0;
  for (int64_t n = 0; n <= FEW; n += n < 2 ? 1 : FEW - 2) {
    clave_builder *builder;
    clave_session *session;
    static float x[64 * 64];
    good(clave_builder_create(&builder));
    const int64_t shape[] = {64, 64};
    const clave_id in =
        clave_builder_tensor(builder, CLAVE_SLOT_INPUT, "x", CLAVE_F32, 2, shape, NULL);
    clave_builder_method(builder, "forward");
    clave_builder_input(builder, "x", in);
    for (int64_t i = 0; i < n; i++) {
      const int64_t rows[] = {64, 32 + 16 * i};
      char name[24];
      (void)snprintf(name, sizeof name, "w%d", (int)i);
      const clave_tensor tensor =
          clave_tensor_make(CLAVE_F32, 2, rows, calloc(64 * 1024, sizeof(float)));
      const clave_id weight = clave_builder_constant(builder, name, &tensor, true);
      free(tensor.data);
      name[0] = 'y';
      const clave_id y =
          clave_builder_tensor(builder, CLAVE_SLOT_OUTPUT, name, CLAVE_F32, 2, rows, NULL);
      clave_builder_op(builder, "Matmul", "");
      clave_builder_set_tensor(builder, "a", in);
      clave_builder_set_tensor(builder, "b", weight);
      clave_builder_set_tensor(builder, "out", y);
      clave_builder_output(builder, name, y);
    }
    clave_program *program = finish(builder, NULL);
    uint32_t told = 0;
    const clave_tune_options options = {
        .size = sizeof options, .dry = true, .report = count_event, .ctx = &told};
    clave_tune_result result = {.size = sizeof result};
    const clave_tensor value = clave_tensor_make(CLAVE_F32, 2, shape, x);
    good(clave_session_create(program, cpu, NULL, &session));
    good(clave_session_bind_input(session, NULL, 0, &value));
    good(clave_session_tune(session, NULL, &options, &result));
    assert_int_equal(result.total, told);
    assert_int_equal(result.done, told);
    assert_true(n ? told > before : told == 0);
    before = told;
    clave_session_destroy(session);
    clave_program_destroy(program);
  }
}

static void test_lists_of_devices(void **state) {
  (void)state;
  static char spec[5 * MANY + 1];
  assert_int_equal(setenv("CLAVE_DEVICE", "cpu", 1), 0);
  for (int from_variable = 0; from_variable < 2; from_variable++) EACH_COUNT(n) {
      clave_device *device;
      clave_device_info info = {.size = sizeof info};
      spec[0] = 0;
      for (size_t i = 0; i < n; i++) strcat(spec, i ? ", cpu" : "cpu");
      if (from_variable) assert_int_equal(setenv("CLAVE_DEVICE", spec, 1), 0);
      if (from_variable && !n) assert_int_equal(setenv("CLAVE_DEVICE", "cpu", 1), 0);
      good(clave_device_open(from_variable ? NULL : spec, NULL, &device));
      good(clave_device_get_info(device, &info));
      assert_string_equal(info.kind, "cpu");
      clave_device_destroy(device);
    }
  static const char *const wrong[] = {",", "cpu,", ",cpu", "cpu,,cpu", " "};
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
    clave_device *device;
    clave_status st = clave_device_open(wrong[i], NULL, &device);
    assert_non_null(st);
    assert_null(device);
    clave_status_free(st);
  }
  assert_int_equal(unsetenv("CLAVE_DEVICE"), 0);
}

static void test_peaks(void **state) {
  (void)state;
  static clave_peak peaks[MANY];
  clave_program *program = build_arguments(1, false);
  clave_session *session;
  good(clave_session_create(program, cpu, NULL, &session));
  for (int i = 0; i < MANY; i++)
    peaks[i] = (clave_peak){.size = sizeof *peaks, .device = "d", .flops_a_second = 1};
  EACH_COUNT(n) good(clave_session_set_peaks(session, n ? peaks : NULL, n));
  clave_session_destroy(session);
  clave_program_destroy(program);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_inputs_and_outputs),
      cmocka_unit_test(test_lists_of_tensors),
      cmocka_unit_test(test_steps),
      cmocka_unit_test(test_operands),
      cmocka_unit_test(test_sizes),
      cmocka_unit_test(test_bodies),
      cmocka_unit_test(test_methods),
      cmocka_unit_test(test_dims_of_compile),
      cmocka_unit_test(test_rows_of_tuning),
      cmocka_unit_test(test_choices_of_tuning),
      cmocka_unit_test(test_lists_of_devices),
      cmocka_unit_test(test_peaks),
  };
  return cmocka_run_group_tests(tests, open_device, close_device);
}
