/* Host scalar ops: exact integers, an error where they overflow or divide by zero, bounds, checks.
 */
#include "interp/scalar.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#define LITERAL(n) \
  { .literal = (n), .vid = IR_NONE, .present = true }

/* The values that receive results: unbounded, and in [1, 10]. */
static ir_value values[] = {{.name = "n"}, {.name = "few", .min = {1, true}, .max = {10, true}}};
static const ir_program program = {.values = {values, 2}};

static void expect(clave_status st, const char *error) {
  if (!error && st) fail_msg("%s", status_message(st));
  if (error && !(st && strstr(status_message(st), error)))
    fail_msg("'%s' does not say '%s'", st ? status_message(st) : "", error);
  status_free(st);
}

static clave_status run(ir_scalar_kind kind, int64_t a, int64_t b, uint32_t out, int64_t *result) {
  scalar_value of[2] = {{0}};
  const ir_int_scalar op = {.kind = kind, .a = LITERAL(a), .b = LITERAL(b), .out = out};
  const ir_instruction ins = {.op_type = IR_OP_INT_SCALAR, .op = (void *)&op};
  clave_status st = scalar_run(&program, &ins, of);
  *result = of[out].i;
  return st;
}

static void test_integers(void **state) {
  (void)state;
  static const struct {
    ir_scalar_kind kind;
    int64_t a, b, want;
    const char *error;
  } rows[] = {
      {IR_SCALAR_KIND_ADD, INT64_MAX - 1, 1, INT64_MAX, NULL},
      {IR_SCALAR_KIND_ADD, INT64_MAX, 1, 0, "overflows"},
      {IR_SCALAR_KIND_SUB, INT64_MIN, 1, 0, "overflows"},
      {IR_SCALAR_KIND_MUL, INT64_C(1) << 32, INT64_C(1) << 31, 0, "overflows"},
      {IR_SCALAR_KIND_MUL, -3, 7, -21, NULL},
      {IR_SCALAR_KIND_NEG, INT64_MIN, 0, 0, "overflows"},
      {IR_SCALAR_KIND_FLOOR_DIV, 7, 2, 3, NULL},
      {IR_SCALAR_KIND_FLOOR_DIV, -7, 2, -4, NULL},
      {IR_SCALAR_KIND_FLOOR_DIV, 7, -2, -4, NULL},
      {IR_SCALAR_KIND_FLOOR_DIV, -8, 2, -4, NULL},
      {IR_SCALAR_KIND_FLOOR_DIV, 1, 0, 0, "divides 1 by zero"},
      {IR_SCALAR_KIND_FLOOR_DIV, INT64_MIN, -1, 0, "overflows"},
      {IR_SCALAR_KIND_MOD, -7, 3, 2, NULL},
      {IR_SCALAR_KIND_MOD, 7, -3, -2, NULL},
      {IR_SCALAR_KIND_MOD, 7, 0, 0, "by zero"},
      {IR_SCALAR_KIND_POW, 3, 39, 4052555153018976267, NULL},
      {IR_SCALAR_KIND_POW, 3, 40, 0, "overflows"},
      {IR_SCALAR_KIND_POW, 3, -1, 0, "negative power"},
      {IR_SCALAR_KIND_MIN, -1, 2, -1, NULL},
      {IR_SCALAR_KIND_MAX, -1, 2, 2, NULL},
      {IR_SCALAR_KIND_LE, 2, 2, 1, NULL},
      {IR_SCALAR_KIND_LT, 2, 2, 0, NULL},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    int64_t got;
    expect(run(rows[i].kind, rows[i].a, rows[i].b, 0, &got), rows[i].error);
    if (!rows[i].error) assert_int_equal(got, rows[i].want);
  }
}

static void test_bounds(void **state) {
  (void)state;
  int64_t got;
  expect(run(IR_SCALAR_KIND_ADD, 4, 6, 1, &got), NULL);
  expect(run(IR_SCALAR_KIND_ADD, 5, 6, 1, &got), "is 11; 'few' must be in [1, 10]");
  expect(run(IR_SCALAR_KIND_SUB, 1, 1, 1, &got), "is 0; 'few' must be in [1, 10]");
}

static void test_checks(void **state) {
  (void)state;
  ir_check op = {
      .kind = IR_SCALAR_KIND_EQ, .a = LITERAL(3), .b = LITERAL(3), .message = "sizes agree"};
  const ir_instruction ins = {.op_type = IR_OP_CHECK, .op = &op};
  expect(scalar_run(&program, &ins, NULL), NULL);
  op.kind = IR_SCALAR_KIND_GT;
  expect(scalar_run(&program, &ins, NULL), "sizes agree: 3 > 3 does not hold");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_integers),
      cmocka_unit_test(test_bounds),
      cmocka_unit_test(test_checks),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
