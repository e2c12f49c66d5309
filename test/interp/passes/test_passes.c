/* Tests each pass on a small program: the names of instructions before and after, and equal
 * results. test/python/test_patterns.py has the many spellings. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "clave_builder.h"
#include "test/api/expect.h"

enum { ROWS = 2, COLUMNS = 6, MAX_TEXT = 512 };

/* A program under construction; tensors are F32 (2, 6) unless stated otherwise. */
typedef struct sketch {
  clave_builder *b;
  clave_id x; /* the input */
  int n_outputs;
} sketch;

static clave_id shaped(const sketch *sketch, clave_dtype type, int rank, const int64_t *dims) {
  return clave_builder_tensor(sketch->b, CLAVE_SLOT_TEMPORARY, "t", type, rank, dims, NULL);
}

static const int64_t whole[] = {ROWS, COLUMNS};

static sketch begin(void) {
  sketch sketch = {0};
  good(clave_builder_create(&sketch.b));
  sketch.x = clave_builder_tensor(sketch.b, CLAVE_SLOT_INPUT, "x", CLAVE_F32, 2, whole, NULL);
  clave_builder_method(sketch.b, "forward");
  clave_builder_input(sketch.b, "x", sketch.x);
  return sketch;
}

static clave_id step(const sketch *sketch, const char *kind, clave_dtype type, int rank,
                     const int64_t *dims, const clave_id *inputs, uint32_t n,
                     const double *number) {
  clave_operand operand[3] = {{.source = CLAVE_OPERAND_INPUT},
                              {.source = CLAVE_OPERAND_INPUT, .index = 1}};
  if (number) operand[n] = (clave_operand){.source = CLAVE_OPERAND_FLOAT, .f = *number};
  clave_id out = shaped(sketch, type, rank, dims);
  clave_builder_op(sketch->b, "Elementwise", kind);
  clave_builder_set_tensors(sketch->b, "inputs", inputs, n);
  clave_builder_step(sketch->b, kind, type, operand, n + (number != NULL));
  clave_builder_set_tensor(sketch->b, "out", out);
  return out;
}

static clave_id unary(const sketch *sketch, const char *kind, clave_id x) {
  return step(sketch, kind, CLAVE_F32, 2, whole, &x, 1, NULL);
}
static clave_id binary(const sketch *sketch, const char *kind, clave_id a, clave_id b) {
  return step(sketch, kind, CLAVE_F32, 2, whole, (const clave_id[]){a, b}, 2, NULL);
}
static clave_id with_number(const sketch *sketch, const char *kind, clave_id x, double n) {
  return step(sketch, kind, CLAVE_F32, 2, whole, &x, 1, &n);
}
static clave_id cast(const sketch *sketch, clave_id x, clave_dtype to) {
  return step(sketch, "cast", to, 2, whole, &x, 1, NULL);
}

static clave_id reshape(const sketch *sketch, clave_id x, int rank, const int64_t *dims) {
  clave_id out = shaped(sketch, CLAVE_F32, rank, dims);
  clave_builder_op(sketch->b, "Reshape", "reshape");
  clave_builder_set_tensor(sketch->b, "x", x);
  clave_builder_set_sizes(sketch->b, "shape", dims, NULL, (uint32_t)rank);
  clave_builder_set_tensor(sketch->b, "out", out);
  return out;
}

static clave_id permute(const sketch *sketch, clave_id x, int rank, const int32_t *order,
                        const int64_t *dims) {
  clave_id out = shaped(sketch, CLAVE_F32, rank, dims);
  clave_builder_op(sketch->b, "Permute", "permute");
  clave_builder_set_tensor(sketch->b, "x", x);
  clave_builder_set_ints(sketch->b, "dims", order, (uint32_t)rank);
  clave_builder_set_tensor(sketch->b, "out", out);
  return out;
}

static clave_id mean(const sketch *sketch, clave_id x) {
  clave_id out = shaped(sketch, CLAVE_F32, 2, (const int64_t[]){ROWS, 1});
  clave_builder_op(sketch->b, "Reduce", "mean");
  clave_builder_set_text(sketch->b, "kind", "mean");
  clave_builder_set_tensor(sketch->b, "x", x);
  clave_builder_set_ints(sketch->b, "axes", (const int32_t[]){-1}, 1);
  clave_builder_set_bool(sketch->b, "keepdim", true);
  clave_builder_set_tensor(sketch->b, "out", out);
  return out;
}

/* 1 / sqrt(x + 1e-5) of (2, 1) */
static clave_id inverse_root(const sketch *sketch, clave_id x) {
  const int64_t dims[] = {ROWS, 1};
  const double eps = 1e-5;
  clave_id sum = step(sketch, "add", CLAVE_F32, 2, dims, &x, 1, &eps);
  return step(sketch, "rsqrt", CLAVE_F32, 2, dims, &sum, 1, NULL);
}

static clave_id matmul(const sketch *sketch, clave_id a, clave_id b, const int64_t *dims) {
  clave_id out = shaped(sketch, CLAVE_F32, 3, dims);
  clave_builder_op(sketch->b, "Matmul", "matmul");
  clave_builder_set_tensor(sketch->b, "a", a);
  clave_builder_set_tensor(sketch->b, "b", b);
  clave_builder_set_tensor(sketch->b, "out", out);
  return out;
}

static clave_id constant(const sketch *sketch, const char *name, float first, float by) {
  float data[ROWS * COLUMNS];
  for (int i = 0; i < ROWS * COLUMNS; i++) data[i] = first + by * (float)i;
  clave_tensor tensor = clave_tensor_make(CLAVE_F32, 2, whole, data);
  return clave_builder_constant(sketch->b, name, &tensor, true);
}

static clave_id output_slot(sketch *sketch, int rank, const int64_t *dims) {
  char name[16];
  (void)snprintf(name, sizeof name, "y%d", sketch->n_outputs++);
  clave_id y =
      clave_builder_tensor(sketch->b, CLAVE_SLOT_OUTPUT, name, CLAVE_F32, rank, dims, NULL);
  clave_builder_output(sketch->b, name, y);
  return y;
}

/* Adds an instruction that makes an output of this tensor, and returns its slot. */
static clave_id output(sketch *sketch, clave_id x, int rank, const int64_t *dims) {
  clave_id y = output_slot(sketch, rank, dims);
  const clave_operand operand = {.source = CLAVE_OPERAND_INPUT};
  clave_builder_op(sketch->b, "Elementwise", "out");
  clave_builder_set_tensors(sketch->b, "inputs", &x, 1);
  clave_builder_step(sketch->b, "abs", CLAVE_F32, &operand, 1);
  clave_builder_set_tensor(sketch->b, "out", y);
  return y;
}

/* ---------------------------------------------------------------- before and after */

/* "matmul elementwise ..." */
static const char *names_of(const clave_program *program) {
  static char text[MAX_TEXT];
  clave_method_info info = {.size = sizeof info};
  clave_node_info node = {.size = sizeof node};
  size_t n = 0;
  text[0] = 0;
  good(clave_program_method(program, 0, &info));
  for (uint32_t i = 0; i < info.n_nodes; i++) {
    good(clave_program_node(program, NULL, i, &node));
    n += (size_t)snprintf(text + n, sizeof text - n, "%s%s", i ? " " : "", node.op);
    assert_true(n < sizeof text);
  }
  return text;
}

/* Copies all outputs, one after the other. */
static void run(clave_program *program, clave_device *device, float *out, size_t *count) {
  float data[ROWS * COLUMNS];
  clave_session *session;
  clave_tensor result;
  clave_method_info info = {.size = sizeof info};
  for (int i = 0; i < ROWS * COLUMNS; i++) data[i] = 0.37F * (float)(i % 5) - 0.7F;
  clave_tensor in = clave_tensor_make(CLAVE_F32, 2, whole, data);
  good(clave_program_method(program, 0, &info));
  good(clave_session_create(program, device, NULL, &session));
  good(clave_session_set_input(session, NULL, 0, &in));
  good(clave_session_run(session, NULL));
  *count = 0;
  for (uint32_t k = 0; k < info.n_outputs; k++) {
    size_t numel = 1;
    good(clave_session_output(session, NULL, k, &result));
    for (int i = 0; i < result.rank; i++) numel *= (size_t)result.dims[i];
    memcpy(out + *count, result.data, numel * sizeof *out);
    *count += numel;
  }
  clave_session_destroy(session);
}

static void same_results(clave_program *left, clave_program *right) {
  float x[64], y[64];
  size_t n, m;
  clave_device *device;
  good(clave_device_open("cpu", NULL, &device));
  run(left, device, x, &n);
  run(right, device, y, &m);
  assert_int_equal(n, m);
  for (size_t i = 0; i < n; i++) assert_true(fabsf(x[i] - y[i]) <= 1e-5F * (1 + fabsf(x[i])));
  clave_device_destroy(device);
}

typedef struct told {
  const char *pass;
  uint32_t applied;
  int64_t removed;
} told;

static void note_pass(void *ctx, const clave_pass_info *info) {
  told *told = ctx;
  if (info->refused) fail_msg("%s: %s", info->name, info->refused);
  if (strcmp(info->name, told->pass) != 0) return;
  told->applied = info->applied;
  told->removed = info->removed;
}

/* Checks that the pass rewrites `before` to `after`, or changes nothing if applied is 0. */
static void expect(sketch *sketch, const char *pass, const char *before, const char *after,
                   uint32_t applied) {
  clave_program *program, *rewritten;
  told told = {.pass = pass};
  clave_optimize_options options = {.size = sizeof options,
                                    .passes = &pass,
                                    .n_passes = 1,
                                    .report = note_pass,
                                    .report_ctx = &told};
  good(clave_builder_finish(sketch->b, &program));
  clave_builder_destroy(sketch->b);
  assert_string_equal(names_of(program), before);
  good(clave_program_optimize(program, &options, &rewritten));
  assert_string_equal(names_of(rewritten), after);
  assert_int_equal(told.applied, applied);
  clave_program_info info = {.size = sizeof info};
  good(clave_program_check_hashes(rewritten));
  good(clave_program_get_info(rewritten, &info));
  same_results(program, rewritten);
  clave_program_destroy(program); /* the other one keeps it */
  same_results(rewritten, rewritten);
  clave_program_destroy(rewritten);
}

/* ---------------------------------------------------------------- folding */

static void test_dead_code(void **state) {
  (void)state;
  sketch sketch = begin();
  clave_id y = unary(&sketch, "exp", sketch.x);
  (void)unary(&sketch, "sin", unary(&sketch, "cos", sketch.x));
  output(&sketch, y, 2, whole);
  expect(&sketch, "dead_code", "elementwise elementwise elementwise elementwise",
         "elementwise elementwise", 2);
}

static void test_casts(void **state) {
  (void)state;
  sketch sketch = begin();
  output(&sketch, cast(&sketch, cast(&sketch, sketch.x, CLAVE_F64), CLAVE_F32), 2, whole);
  expect(&sketch, "cast", "elementwise elementwise elementwise", "elementwise", 1);
  sketch = begin();
  output(&sketch, cast(&sketch, cast(&sketch, sketch.x, CLAVE_F16), CLAVE_F32), 2, whole);
  expect(&sketch, "cast", "elementwise elementwise elementwise",
         "elementwise elementwise elementwise", 0);
}

static void test_views(void **state) {
  (void)state;
  const int64_t row[] = {ROWS * COLUMNS}, turned[] = {COLUMNS, ROWS}, back[] = {ROWS, COLUMNS};
  sketch sketch = begin();
  clave_id flat = reshape(&sketch, reshape(&sketch, sketch.x, 1, row), 2, back);
  clave_id t = permute(&sketch, permute(&sketch, flat, 2, (const int32_t[]){1, 0}, turned), 2,
                       (const int32_t[]){1, 0}, back);
  output(&sketch, t, 2, whole);
  expect(&sketch, "view", "reshape reshape permute permute elementwise", "elementwise", 2);
}

/* Each output keeps its slot. */
static void test_outputs_that_become_one_tensor(void **state) {
  (void)state;
  const int64_t row[] = {ROWS * COLUMNS};
  sketch sketch = begin();
  clave_id y = output(&sketch, sketch.x, 2, whole);
  clave_id again = reshape(&sketch, reshape(&sketch, y, 1, row), 2, whole),
           z = output_slot(&sketch, 2, whole);
  clave_builder_op(sketch.b, "Copy", "copy");
  clave_builder_set_tensor(sketch.b, "x", again);
  clave_builder_set_tensor(sketch.b, "out", z);
  expect(&sketch, "view", "elementwise reshape reshape copy", "elementwise copy", 5);
}

static void test_constants(void **state) {
  (void)state;
  sketch sketch = begin();
  clave_id w = unary(&sketch, "exp", unary(&sketch, "sin", constant(&sketch, "w", -1, 0.1F)));
  output(&sketch, binary(&sketch, "add", sketch.x, w), 2, whole);
  expect(&sketch, "constant", "elementwise elementwise elementwise elementwise",
         "elementwise elementwise", 1);
}

static void test_uniform_constants_become_numbers(void **state) {
  (void)state;
  sketch sketch = begin();
  clave_id w = unary(&sketch, "exp", constant(&sketch, "w", -1, 0));
  output(&sketch, binary(&sketch, "add", sketch.x, w), 2, whole);
  expect(&sketch, "constant", "elementwise elementwise elementwise", "full elementwise elementwise",
         1);
}

static clave_id full(const sketch *sketch, int rank, const int64_t *dims) {
  clave_id out = shaped(sketch, CLAVE_F32, rank, dims);
  clave_builder_op(sketch->b, "Full", "full");
  clave_builder_set_float(sketch->b, "value", 2.5);
  clave_builder_set_tensor(sketch->b, "out", out);
  return out;
}

static void test_numbers(void **state) {
  (void)state;
  sketch sketch = begin();
  output(&sketch, binary(&sketch, "mul", full(&sketch, 2, whole), sketch.x), 2, whole);
  expect(&sketch, "number", "full elementwise elementwise", "elementwise elementwise", 1);
  for (int64_t first = 1; first <= 3; first += 2) { /* the result has its shape of the Full alone */
    sketch = begin();
    const int64_t dims[] = {first, ROWS, COLUMNS};
    const clave_id both[] = {sketch.x, full(&sketch, 3, dims)};
    output(&sketch, step(&sketch, "mul", CLAVE_F32, 3, dims, both, 2, NULL), 3, dims);
    expect(&sketch, "number", "full elementwise elementwise", "full elementwise elementwise", 0);
  }
}

static void test_equal(void **state) {
  (void)state;
  sketch sketch = begin();
  clave_id a = unary(&sketch, "exp", sketch.x), b = unary(&sketch, "exp", sketch.x),
           c = unary(&sketch, "sin", sketch.x);
  output(&sketch,
         binary(&sketch, "sub", unary(&sketch, "cos", a),
                binary(&sketch, "add", unary(&sketch, "cos", b), c)),
         2, whole);
  expect(&sketch, "equal",
         "elementwise elementwise elementwise elementwise elementwise elementwise elementwise "
         "elementwise",
         "elementwise elementwise elementwise elementwise elementwise elementwise", 2);
}

/* ---------------------------------------------------------------- patterns */

static void test_activations(void **state) {
  (void)state;
  sketch sketch = begin();
  clave_id e = unary(&sketch, "erf", with_number(&sketch, "div", sketch.x, sqrt(2)));
  output(&sketch,
         binary(&sketch, "mul", with_number(&sketch, "mul", sketch.x, 0.5),
                with_number(&sketch, "add", e, 1)),
         2, whole);
  expect(&sketch, "gelu", "elementwise elementwise elementwise elementwise elementwise elementwise",
         "elementwise elementwise", 1);
  sketch = begin();
  output(&sketch, binary(&sketch, "mul", sketch.x, unary(&sketch, "sigmoid", sketch.x)), 2, whole);
  expect(&sketch, "silu", "elementwise elementwise elementwise", "elementwise elementwise", 1);
}

static void test_a_part_that_is_read_elsewhere_keeps_the_whole(void **state) {
  (void)state;
  sketch sketch = begin();
  clave_id gate = unary(&sketch, "sigmoid", sketch.x);
  output(&sketch, binary(&sketch, "mul", sketch.x, gate), 2, whole);
  output(&sketch, gate, 2, whole);
  expect(&sketch, "silu", "elementwise elementwise elementwise elementwise",
         "elementwise elementwise elementwise elementwise", 0);
}

static void test_norms(void **state) {
  (void)state;
  sketch sketch = begin();
  clave_id r = inverse_root(&sketch, mean(&sketch, binary(&sketch, "mul", sketch.x, sketch.x)));
  output(&sketch, binary(&sketch, "mul", sketch.x, r), 2, whole);
  expect(&sketch, "rms_norm", "elementwise reduce elementwise elementwise elementwise elementwise",
         "rms_norm elementwise", 1);
  sketch = begin();
  clave_id d = binary(&sketch, "sub", sketch.x, mean(&sketch, sketch.x));
  r = inverse_root(&sketch, mean(&sketch, binary(&sketch, "mul", d, d)));
  output(&sketch, binary(&sketch, "mul", d, r), 2, whole);
  expect(&sketch, "layer_norm",
         "reduce elementwise elementwise reduce elementwise elementwise elementwise elementwise",
         "layer_norm elementwise", 1);
}

static void test_attention(void **state) {
  (void)state;
  const int64_t heads[] = {ROWS, 3, 2}, turned[] = {ROWS, 2, 3}, scores[] = {ROWS, 3, 3};
  sketch sketch = begin();
  clave_id q = reshape(&sketch, sketch.x, 3, heads),
           k = reshape(&sketch, unary(&sketch, "sin", sketch.x), 3, heads);
  clave_id p = shaped(&sketch, CLAVE_F32, 3, scores);
  clave_id qk =
      matmul(&sketch, q, permute(&sketch, k, 3, (const int32_t[]){0, 2, 1}, turned), scores);
  clave_builder_op(sketch.b, "Softmax", "softmax");
  clave_builder_set_tensor(sketch.b, "x", qk);
  clave_builder_set_int(sketch.b, "axis", -1);
  clave_builder_set_tensor(sketch.b, "out", p);
  output(&sketch,
         matmul(&sketch, p, reshape(&sketch, unary(&sketch, "cos", sketch.x), 3, heads), heads), 3,
         heads);
  expect(&sketch, "attention",
         "reshape elementwise reshape permute matmul softmax elementwise reshape matmul "
         "elementwise",
         "reshape elementwise reshape elementwise reshape attention elementwise", 1);
}

/* ---------------------------------------------------------------- the manager */

static void test_unknown_passes(void **state) {
  (void)state;
  clave_program *program, *rewritten;
  const char *pass = "polish";
  clave_optimize_options options = {.size = sizeof options, .passes = &pass, .n_passes = 1};
  sketch sketch = begin();
  output(&sketch, sketch.x, 2, whole);
  good(clave_builder_finish(sketch.b, &program));
  clave_builder_destroy(sketch.b);
  expect_invalid(clave_program_optimize(program, &options, &rewritten),
                 "unknown pass 'polish'; the passes are ");
  assert_null(rewritten);
  clave_program_destroy(program);
}

static void test_encoding(void **state) {
  (void)state;
  clave_program *program, *other_program;
  void *flat;
  size_t n;
  sketch sketch = begin();
  output(&sketch, sketch.x, 2, whole);
  good(clave_builder_finish(sketch.b, &program));
  clave_builder_destroy(sketch.b);
  good(clave_program_encode(program, &flat, &n));
  good(clave_program_create(flat, n, NULL, 0, &other_program));
  assert_string_equal(names_of(other_program), "elementwise");
  free(flat);
  clave_program_destroy(other_program);
  clave_program_destroy(program);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_dead_code),
      cmocka_unit_test(test_casts),
      cmocka_unit_test(test_views),
      cmocka_unit_test(test_outputs_that_become_one_tensor),
      cmocka_unit_test(test_constants),
      cmocka_unit_test(test_uniform_constants_become_numbers),
      cmocka_unit_test(test_numbers),
      cmocka_unit_test(test_equal),
      cmocka_unit_test(test_activations),
      cmocka_unit_test(test_a_part_that_is_read_elsewhere_keeps_the_whole),
      cmocka_unit_test(test_norms),
      cmocka_unit_test(test_attention),
      cmocka_unit_test(test_unknown_passes),
      cmocka_unit_test(test_encoding),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
