/* What each pass makes of a small program, and that the results stay: before and after, by the
 * names of the instructions. test/python/test_patterns.py has the many spellings. */
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

/* A program that is being written down: of F32 (2, 6), if nothing else is said. */
typedef struct sketch {
  clave_builder *b;
  clave_id x; /* the input */
  int n_outputs;
} sketch;

static clave_id shaped(const sketch *s, clave_dtype type, int rank, const int64_t *dims) {
  return clave_builder_tensor(s->b, CLAVE_SLOT_TEMPORARY, "t", type, rank, dims, NULL);
}

static const int64_t whole[] = {ROWS, COLUMNS};

static sketch begin(void) {
  sketch s = {0};
  good(clave_builder_create(&s.b));
  s.x = clave_builder_tensor(s.b, CLAVE_SLOT_INPUT, "x", CLAVE_F32, 2, whole, NULL);
  clave_builder_method(s.b, "forward");
  clave_builder_input(s.b, "x", s.x);
  return s;
}

static clave_id step(const sketch *s, const char *kind, clave_dtype type, int rank,
                     const int64_t *dims, const clave_id *inputs, uint32_t n,
                     const double *number) {
  clave_operand o[3] = {{.source = CLAVE_OPERAND_INPUT},
                        {.source = CLAVE_OPERAND_INPUT, .index = 1}};
  if (number) o[n] = (clave_operand){.source = CLAVE_OPERAND_FLOAT, .f = *number};
  clave_id out = shaped(s, type, rank, dims);
  clave_builder_op(s->b, "Elementwise", kind);
  clave_builder_set_tensors(s->b, "inputs", inputs, n);
  clave_builder_step(s->b, kind, type, o, n + (number != NULL));
  clave_builder_set_tensor(s->b, "out", out);
  return out;
}

static clave_id unary(const sketch *s, const char *kind, clave_id x) {
  return step(s, kind, CLAVE_F32, 2, whole, &x, 1, NULL);
}
static clave_id binary(const sketch *s, const char *kind, clave_id a, clave_id b) {
  return step(s, kind, CLAVE_F32, 2, whole, (const clave_id[]){a, b}, 2, NULL);
}
static clave_id with_number(const sketch *s, const char *kind, clave_id x, double n) {
  return step(s, kind, CLAVE_F32, 2, whole, &x, 1, &n);
}
static clave_id cast(const sketch *s, clave_id x, clave_dtype to) {
  return step(s, "cast", to, 2, whole, &x, 1, NULL);
}

static clave_id reshape(const sketch *s, clave_id x, int rank, const int64_t *dims) {
  clave_id out = shaped(s, CLAVE_F32, rank, dims);
  clave_builder_op(s->b, "Reshape", "reshape");
  clave_builder_set_tensor(s->b, "x", x);
  clave_builder_set_sizes(s->b, "shape", dims, NULL, (uint32_t)rank);
  clave_builder_set_tensor(s->b, "out", out);
  return out;
}

static clave_id permute(const sketch *s, clave_id x, int rank, const int32_t *order,
                        const int64_t *dims) {
  clave_id out = shaped(s, CLAVE_F32, rank, dims);
  clave_builder_op(s->b, "Permute", "permute");
  clave_builder_set_tensor(s->b, "x", x);
  clave_builder_set_ints(s->b, "dims", order, (uint32_t)rank);
  clave_builder_set_tensor(s->b, "out", out);
  return out;
}

static clave_id mean(const sketch *s, clave_id x) {
  clave_id out = shaped(s, CLAVE_F32, 2, (const int64_t[]){ROWS, 1});
  clave_builder_op(s->b, "Reduce", "mean");
  clave_builder_set_text(s->b, "kind", "mean");
  clave_builder_set_tensor(s->b, "x", x);
  clave_builder_set_ints(s->b, "axes", (const int32_t[]){-1}, 1);
  clave_builder_set_bool(s->b, "keepdim", true);
  clave_builder_set_tensor(s->b, "out", out);
  return out;
}

/* 1 / sqrt(x + 1e-5) of (2, 1) */
static clave_id inverse_root(const sketch *s, clave_id x) {
  const int64_t dims[] = {ROWS, 1};
  const double eps = 1e-5;
  clave_id sum = step(s, "add", CLAVE_F32, 2, dims, &x, 1, &eps);
  return step(s, "rsqrt", CLAVE_F32, 2, dims, &sum, 1, NULL);
}

static clave_id matmul(const sketch *s, clave_id a, clave_id b, const int64_t *dims) {
  clave_id out = shaped(s, CLAVE_F32, 3, dims);
  clave_builder_op(s->b, "Matmul", "matmul");
  clave_builder_set_tensor(s->b, "a", a);
  clave_builder_set_tensor(s->b, "b", b);
  clave_builder_set_tensor(s->b, "out", out);
  return out;
}

static clave_id constant(const sketch *s, const char *name, float first, float by) {
  float data[ROWS * COLUMNS];
  for (int i = 0; i < ROWS * COLUMNS; i++) data[i] = first + by * (float)i;
  clave_tensor t = clave_tensor_make(CLAVE_F32, 2, whole, data);
  return clave_builder_constant(s->b, name, &t, true);
}

static clave_id output_slot(sketch *s, int rank, const int64_t *dims) {
  char name[16];
  (void)snprintf(name, sizeof name, "y%d", s->n_outputs++);
  clave_id y = clave_builder_tensor(s->b, CLAVE_SLOT_OUTPUT, name, CLAVE_F32, rank, dims, NULL);
  clave_builder_output(s->b, name, y);
  return y;
}

/* An output of this tensor, by an instruction; its slot. */
static clave_id output(sketch *s, clave_id x, int rank, const int64_t *dims) {
  clave_id y = output_slot(s, rank, dims);
  const clave_operand o = {.source = CLAVE_OPERAND_INPUT};
  clave_builder_op(s->b, "Elementwise", "out");
  clave_builder_set_tensors(s->b, "inputs", &x, 1);
  clave_builder_step(s->b, "abs", CLAVE_F32, &o, 1);
  clave_builder_set_tensor(s->b, "out", y);
  return y;
}

/* ---------------------------------------------------------------- before and after */

/* "matmul elementwise ..." */
static const char *names_of(const clave_program *p) {
  static char text[MAX_TEXT];
  clave_method_info m = {.size = sizeof m};
  clave_node_info node = {.size = sizeof node};
  size_t n = 0;
  text[0] = 0;
  good(clave_program_method(p, 0, &m));
  for (uint32_t i = 0; i < m.n_nodes; i++) {
    good(clave_program_node(p, NULL, i, &node));
    n += (size_t)snprintf(text + n, sizeof text - n, "%s%s", i ? " " : "", node.op);
    assert_true(n < sizeof text);
  }
  return text;
}

/* All outputs, one behind the other. */
static void run(clave_program *p, clave_device *d, float *out, size_t *n) {
  float data[ROWS * COLUMNS];
  clave_session *s;
  clave_tensor y;
  clave_method_info m = {.size = sizeof m};
  for (int i = 0; i < ROWS * COLUMNS; i++) data[i] = 0.37F * (float)(i % 5) - 0.7F;
  clave_tensor x = clave_tensor_make(CLAVE_F32, 2, whole, data);
  good(clave_program_method(p, 0, &m));
  good(clave_session_create(p, d, NULL, &s));
  good(clave_session_set_input(s, NULL, 0, &x));
  good(clave_session_run(s, NULL));
  *n = 0;
  for (uint32_t k = 0; k < m.n_outputs; k++) {
    size_t numel = 1;
    good(clave_session_output(s, NULL, k, &y));
    for (int i = 0; i < y.rank; i++) numel *= (size_t)y.dims[i];
    memcpy(out + *n, y.data, numel * sizeof *out);
    *n += numel;
  }
  clave_session_destroy(s);
}

static void same_results(clave_program *a, clave_program *b) {
  float x[64], y[64];
  size_t n, m;
  clave_device *d;
  good(clave_device_open("cpu", NULL, &d));
  run(a, d, x, &n);
  run(b, d, y, &m);
  assert_int_equal(n, m);
  for (size_t i = 0; i < n; i++) assert_true(fabsf(x[i] - y[i]) <= 1e-5F * (1 + fabsf(x[i])));
  clave_device_destroy(d);
}

typedef struct told {
  const char *pass;
  uint32_t applied;
  int64_t removed;
} told;

static void tell(void *ctx, const clave_pass_info *info) {
  told *t = ctx;
  if (info->refused) fail_msg("%s: %s", info->name, info->refused);
  if (strcmp(info->name, t->pass) != 0) return;
  t->applied = info->applied;
  t->removed = info->removed;
}

/* The pass makes `after` of `before`, or nothing: applied 0. */
static void expect(sketch *s, const char *pass, const char *before, const char *after,
                   uint32_t applied) {
  clave_program *p, *q;
  told t = {.pass = pass};
  clave_optimize_options o = {
      .size = sizeof o, .passes = &pass, .n_passes = 1, .report = tell, .report_ctx = &t};
  good(clave_builder_finish(s->b, &p));
  clave_builder_destroy(s->b);
  assert_string_equal(names_of(p), before);
  good(clave_program_optimize(p, &o, &q));
  assert_string_equal(names_of(q), after);
  assert_int_equal(t.applied, applied);
  clave_program_info a = {.size = sizeof a};
  good(clave_program_check_hashes(q));
  good(clave_program_get_info(q, &a));
  same_results(p, q);
  clave_program_destroy(p); /* the other one keeps it */
  same_results(q, q);
  clave_program_destroy(q);
}

/* ---------------------------------------------------------------- folding */

static void test_dead_code(void **state) {
  (void)state;
  sketch s = begin();
  clave_id y = unary(&s, "exp", s.x);
  (void)unary(&s, "sin", unary(&s, "cos", s.x));
  output(&s, y, 2, whole);
  expect(&s, "dead_code", "elementwise elementwise elementwise elementwise",
         "elementwise elementwise", 2);
}

static void test_casts(void **state) {
  (void)state;
  sketch s = begin();
  output(&s, cast(&s, cast(&s, s.x, CLAVE_F64), CLAVE_F32), 2, whole);
  expect(&s, "cast", "elementwise elementwise elementwise", "elementwise", 1);
  s = begin();
  output(&s, cast(&s, cast(&s, s.x, CLAVE_F16), CLAVE_F32), 2, whole);
  expect(&s, "cast", "elementwise elementwise elementwise", "elementwise elementwise elementwise",
         0);
}

static void test_views(void **state) {
  (void)state;
  const int64_t row[] = {ROWS * COLUMNS}, turned[] = {COLUMNS, ROWS}, back[] = {ROWS, COLUMNS};
  sketch s = begin();
  clave_id flat = reshape(&s, reshape(&s, s.x, 1, row), 2, back);
  clave_id t = permute(&s, permute(&s, flat, 2, (const int32_t[]){1, 0}, turned), 2,
                       (const int32_t[]){1, 0}, back);
  output(&s, t, 2, whole);
  expect(&s, "view", "reshape reshape permute permute elementwise", "elementwise", 2);
}

/* Each of them keeps a slot of its own. */
static void test_outputs_that_become_one_tensor(void **state) {
  (void)state;
  const int64_t row[] = {ROWS * COLUMNS};
  sketch s = begin();
  clave_id y = output(&s, s.x, 2, whole);
  clave_id again = reshape(&s, reshape(&s, y, 1, row), 2, whole), z = output_slot(&s, 2, whole);
  clave_builder_op(s.b, "Copy", "copy");
  clave_builder_set_tensor(s.b, "x", again);
  clave_builder_set_tensor(s.b, "out", z);
  expect(&s, "view", "elementwise reshape reshape copy", "elementwise copy", 5);
}

static void test_constants(void **state) {
  (void)state;
  sketch s = begin();
  clave_id w = unary(&s, "exp", unary(&s, "sin", constant(&s, "w", -1, 0.1F)));
  output(&s, binary(&s, "add", s.x, w), 2, whole);
  expect(&s, "constant", "elementwise elementwise elementwise elementwise",
         "elementwise elementwise", 1);
}

static void test_uniform_constants_become_numbers(void **state) {
  (void)state;
  sketch s = begin();
  clave_id w = unary(&s, "exp", constant(&s, "w", -1, 0));
  output(&s, binary(&s, "add", s.x, w), 2, whole);
  expect(&s, "constant", "elementwise elementwise elementwise", "full elementwise elementwise", 1);
}

static clave_id full(const sketch *s, int rank, const int64_t *dims) {
  clave_id out = shaped(s, CLAVE_F32, rank, dims);
  clave_builder_op(s->b, "Full", "full");
  clave_builder_set_float(s->b, "value", 2.5);
  clave_builder_set_tensor(s->b, "out", out);
  return out;
}

static void test_numbers(void **state) {
  (void)state;
  sketch s = begin();
  output(&s, binary(&s, "mul", full(&s, 2, whole), s.x), 2, whole);
  expect(&s, "number", "full elementwise elementwise", "elementwise elementwise", 1);
  for (int64_t first = 1; first <= 3; first += 2) { /* the result has its shape of the Full alone */
    s = begin();
    const int64_t dims[] = {first, ROWS, COLUMNS};
    const clave_id both[] = {s.x, full(&s, 3, dims)};
    output(&s, step(&s, "mul", CLAVE_F32, 3, dims, both, 2, NULL), 3, dims);
    expect(&s, "number", "full elementwise elementwise", "full elementwise elementwise", 0);
  }
}

static void test_equal(void **state) {
  (void)state;
  sketch s = begin();
  clave_id a = unary(&s, "exp", s.x), b = unary(&s, "exp", s.x), c = unary(&s, "sin", s.x);
  output(&s, binary(&s, "sub", unary(&s, "cos", a), binary(&s, "add", unary(&s, "cos", b), c)), 2,
         whole);
  expect(&s, "equal",
         "elementwise elementwise elementwise elementwise elementwise elementwise elementwise "
         "elementwise",
         "elementwise elementwise elementwise elementwise elementwise elementwise", 2);
}

/* ---------------------------------------------------------------- patterns */

static void test_activations(void **state) {
  (void)state;
  sketch s = begin();
  clave_id e = unary(&s, "erf", with_number(&s, "div", s.x, sqrt(2)));
  output(&s, binary(&s, "mul", with_number(&s, "mul", s.x, 0.5), with_number(&s, "add", e, 1)), 2,
         whole);
  expect(&s, "gelu", "elementwise elementwise elementwise elementwise elementwise elementwise",
         "elementwise elementwise", 1);
  s = begin();
  output(&s, binary(&s, "mul", s.x, unary(&s, "sigmoid", s.x)), 2, whole);
  expect(&s, "silu", "elementwise elementwise elementwise", "elementwise elementwise", 1);
}

static void test_a_part_that_is_read_elsewhere_keeps_the_whole(void **state) {
  (void)state;
  sketch s = begin();
  clave_id gate = unary(&s, "sigmoid", s.x);
  output(&s, binary(&s, "mul", s.x, gate), 2, whole);
  output(&s, gate, 2, whole);
  expect(&s, "silu", "elementwise elementwise elementwise elementwise",
         "elementwise elementwise elementwise elementwise", 0);
}

static void test_norms(void **state) {
  (void)state;
  sketch s = begin();
  clave_id r = inverse_root(&s, mean(&s, binary(&s, "mul", s.x, s.x)));
  output(&s, binary(&s, "mul", s.x, r), 2, whole);
  expect(&s, "rms_norm", "elementwise reduce elementwise elementwise elementwise elementwise",
         "rms_norm elementwise", 1);
  s = begin();
  clave_id d = binary(&s, "sub", s.x, mean(&s, s.x));
  r = inverse_root(&s, mean(&s, binary(&s, "mul", d, d)));
  output(&s, binary(&s, "mul", d, r), 2, whole);
  expect(&s, "layer_norm",
         "reduce elementwise elementwise reduce elementwise elementwise elementwise elementwise",
         "layer_norm elementwise", 1);
}

static void test_attention(void **state) {
  (void)state;
  const int64_t heads[] = {ROWS, 3, 2}, turned[] = {ROWS, 2, 3}, scores[] = {ROWS, 3, 3};
  sketch s = begin();
  clave_id q = reshape(&s, s.x, 3, heads), k = reshape(&s, unary(&s, "sin", s.x), 3, heads);
  clave_id p = shaped(&s, CLAVE_F32, 3, scores);
  clave_id qk = matmul(&s, q, permute(&s, k, 3, (const int32_t[]){0, 2, 1}, turned), scores);
  clave_builder_op(s.b, "Softmax", "softmax");
  clave_builder_set_tensor(s.b, "x", qk);
  clave_builder_set_int(s.b, "axis", -1);
  clave_builder_set_tensor(s.b, "out", p);
  output(&s, matmul(&s, p, reshape(&s, unary(&s, "cos", s.x), 3, heads), heads), 3, heads);
  expect(&s, "attention",
         "reshape elementwise reshape permute matmul softmax elementwise reshape matmul "
         "elementwise",
         "reshape elementwise reshape elementwise reshape attention elementwise", 1);
}

/* ---------------------------------------------------------------- the manager */

static void test_unknown_passes(void **state) {
  (void)state;
  clave_program *p, *q;
  const char *pass = "polish";
  clave_optimize_options o = {.size = sizeof o, .passes = &pass, .n_passes = 1};
  sketch s = begin();
  output(&s, s.x, 2, whole);
  good(clave_builder_finish(s.b, &p));
  clave_builder_destroy(s.b);
  expect_invalid(clave_program_optimize(p, &o, &q), "there is no pass 'polish'; there are ");
  assert_null(q);
  clave_program_destroy(p);
}

static void test_encoding(void **state) {
  (void)state;
  clave_program *p, *q;
  void *flat;
  size_t n;
  sketch s = begin();
  output(&s, s.x, 2, whole);
  good(clave_builder_finish(s.b, &p));
  clave_builder_destroy(s.b);
  good(clave_program_encode(p, &flat, &n));
  good(clave_program_create(flat, n, NULL, 0, &q));
  assert_string_equal(names_of(q), "elementwise");
  free(flat);
  clave_program_destroy(q);
  clave_program_destroy(p);
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
