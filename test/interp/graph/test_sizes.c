/* Sizes that are equal for every input compare equal, however computed; others do not. */
#include <cmocka.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "interp/graph/sizes.h"

enum { S, T, FIRST, MAX_VALUES = 400 };

/* A program of host scalars only; S and T are sizes of an input. */
typedef struct setup {
  ir_program p;
  ir_tensor tensor;
  ir_int_or_vid dims[2];
  ir_argument input;
  ir_method method;
  ir_chain chain;
  ir_value values[MAX_VALUES];
  ir_instruction list[MAX_VALUES];
  ir_int_scalar ops[MAX_VALUES];
  mem_pool *pool;
  size_table *sizes;
} setup;

static ir_int_or_vid value(uint32_t vid) { return (ir_int_or_vid){.vid = vid, .present = true}; }
static ir_int_or_vid literal(int64_t n) {
  return (ir_int_or_vid){.literal = n, .vid = IR_NONE, .present = true};
}

static void begin(setup *setup) {
  memset(setup, 0, sizeof *setup);
  setup->dims[0] = value(S);
  setup->dims[1] = value(T);
  setup->tensor.shape = (ir_int_or_vids){setup->dims, 2};
  setup->input = (ir_argument){"x", 0, IR_NONE};
  setup->method = (ir_method){.name = "m", .inputs = {&setup->input, 1}};
  setup->p = (ir_program){.tensors = {&setup->tensor, 1},
                          .n_inputs = 1,
                          .values = {setup->values, FIRST},
                          .chains = {&setup->chain, 1},
                          .methods = {&setup->method, 1}};
  setup->chain.instructions.items = setup->list;
}

/* The value of an operation. */
static ir_int_or_vid op(setup *setup, ir_scalar_kind kind, ir_int_or_vid a, ir_int_or_vid b) {
  uint32_t n = setup->chain.instructions.count++;
  setup->ops[n] = (ir_int_scalar){kind, a, b, setup->p.values.count};
  setup->list[n] = (ir_instruction){IR_OP_INT_SCALAR, &setup->ops[n], ""};
  return value(setup->p.values.count++);
}

static void end(setup *setup) {
  assert_null(mem_pool_create(&setup->pool));
  setup->sizes = size_table_create(&setup->p, setup->pool);
  assert_non_null(setup->sizes);
}

static bool equal(setup *setup, ir_int_or_vid a, ir_int_or_vid b) {
  return same_size(size_of(setup->sizes, &a), size_of(setup->sizes, &b));
}

#define ADD(a, b) op(&s, IR_SCALAR_KIND_ADD, a, b)
#define SUB(a, b) op(&s, IR_SCALAR_KIND_SUB, a, b)
#define MUL(a, b) op(&s, IR_SCALAR_KIND_MUL, a, b)
#define DIV(a, b) op(&s, IR_SCALAR_KIND_FLOOR_DIV, a, b)
#define MOD(a, b) op(&s, IR_SCALAR_KIND_MOD, a, b)
#define MAX(a, b) op(&s, IR_SCALAR_KIND_MAX, a, b)

static setup s;

static void test_polynomials(void **state) {
  (void)state;
  begin(&s);
  ir_int_or_vid a = MUL(MUL(literal(2), value(S)), value(T));
  ir_int_or_vid b = MUL(value(T), ADD(value(S), value(S)));
  ir_int_or_vid square = MUL(ADD(value(S), value(T)), ADD(value(S), value(T)));
  ir_int_or_vid sum = ADD(ADD(MUL(value(S), value(S)), a), MUL(value(T), value(T)));
  ir_int_or_vid zero = SUB(value(S), value(S)), one = ADD(zero, literal(1));
  ir_int_or_vid minus = op(&s, IR_SCALAR_KIND_NEG, value(S), (ir_int_or_vid){.vid = IR_NONE});
  end(&s);
  assert_true(equal(&s, a, b));
  assert_true(equal(&s, square, sum));
  assert_true(equal(&s, zero, literal(0)));
  assert_true(equal(&s, one, literal(1)));
  assert_false(equal(&s, a, square));
  assert_false(equal(&s, value(S), value(T)));
  assert_false(equal(&s, minus, value(S)));
  mem_pool_destroy(s.pool);
}

static void test_divisions(void **state) {
  (void)state;
  begin(&s);
  ir_int_or_vid four = MUL(value(S), literal(4)), half = DIV(four, literal(2));
  ir_int_or_vid odd = DIV(value(S), literal(2)), again = DIV(value(S), literal(2));
  ir_int_or_vid rest = MOD(four, literal(4)), unknown = MOD(value(S), literal(4));
  ir_int_or_vid by_zero = DIV(four, literal(0)), negative = DIV(four, literal(-4));
  ir_int_or_vid largest = MAX(odd, odd);
  end(&s);
  size_table *table = s.sizes;
  assert_true(same_size(size_of(table, &half),
                        size_multiply(table, size_literal(2), size_of(table, &s.dims[0]))));
  assert_true(equal(&s, odd, again));
  assert_true(equal(&s, rest, literal(0)));
  assert_false(equal(&s, unknown, literal(0)));
  assert_false(equal(&s, odd, value(S)));
  assert_false(equal(&s, by_zero, literal(0)));
  assert_false(equal(&s, negative, value(S)));
  assert_true(equal(&s, largest, odd));
  mem_pool_destroy(s.pool);
}

/* An expression that overflows, or has too many terms, is equal only to itself. */
static void test_what_is_too_much(void **state) {
  (void)state;
  begin(&s);
  ir_int_or_vid large = MUL(value(S), literal(INT64_MAX / 2)), over = MUL(large, literal(3));
  ir_int_or_vid other = MUL(large, literal(5)), power = value(S), deep = value(T);
  for (int i = 0; i < 10; i++) power = MUL(power, value(S));
  for (int i = 0; i < 300; i++) deep = ADD(deep, literal(1));
  end(&s);
  assert_true(equal(&s, over, over));
  assert_false(equal(&s, over, other));
  assert_false(equal(&s, over, large));
  assert_true(equal(&s, power, power));
  assert_false(equal(&s, deep, value(T)));
  mem_pool_destroy(s.pool);
}

/* A value that instructions of two methods set equals the result of neither. */
static void test_values_of_several_methods(void **state) {
  (void)state;
  begin(&s);
  ir_int_or_vid value_of_both = MUL(value(S), literal(2));
  ir_int_or_vid twice = MUL(value(S), literal(2)), thrice = MUL(value(S), literal(3));
  s.ops[s.chain.instructions.count] =
      (ir_int_scalar){IR_SCALAR_KIND_MUL, value(S), literal(3), value_of_both.vid};
  s.list[s.chain.instructions.count] =
      (ir_instruction){IR_OP_INT_SCALAR, &s.ops[s.chain.instructions.count], ""};
  s.chain.instructions.count++;
  end(&s);
  assert_true(equal(&s, value_of_both, value_of_both));
  assert_false(equal(&s, value_of_both, twice));
  assert_false(equal(&s, value_of_both, thrice));
  mem_pool_destroy(s.pool);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_polynomials),
      cmocka_unit_test(test_divisions),
      cmocka_unit_test(test_what_is_too_much),
      cmocka_unit_test(test_values_of_several_methods),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
