/* Rules of scalars, views, elementwise lists, copies and joins: accepted ops, and messages for the
 * others. */
#include <limits.h>

#include "ops/fixture.h"

static void scalars(void **state) {
  (void)state;
  fixture_reset();
  uint32_t i = int_value(false, 0), f = other_value(IR_VALUE_TYPE_FLOAT),
           b = other_value(IR_VALUE_TYPE_BOOL);
  ir_int_scalar add = {.kind = IR_SCALAR_KIND_ADD, .a = val(i), .b = lit(2), .out = i};
  expect_good(IR_OP_INT_SCALAR, &add);
  add.out = f;
  expect_bad(IR_OP_INT_SCALAR, &add,
             "out: expected a value of type int, got value 1 of type float");
  add.out = i, add.b = (ir_int_or_vid){.vid = IR_NONE};
  expect_bad(IR_OP_INT_SCALAR, &add, "add needs an operand b");
  add.b = val(f);
  expect_bad(IR_OP_INT_SCALAR, &add, "b: expected an integer, got value 1 of type float");
  ir_int_scalar mod = {.kind = IR_SCALAR_KIND_MOD, .a = val(i), .b = lit(0), .out = i};
  expect_bad(IR_OP_INT_SCALAR, &mod, "mod by zero");
  ir_int_scalar lt = {.kind = IR_SCALAR_KIND_LT, .a = val(i), .b = lit(0), .out = b};
  expect_good(IR_OP_INT_SCALAR, &lt);
  ir_scalar mul = {.kind = IR_SCALAR_KIND_MUL, .a = flit(2), .b = flit(0.5), .out = f};
  expect_good(IR_OP_SCALAR, &mul);
  mul.out = i;
  expect_bad(IR_OP_SCALAR, &mul, "out: expected a value of type float, got value 0 of type int");
  ir_scalar to_int = {.kind = IR_SCALAR_KIND_TO_INT, .a = flit(2), .out = i};
  expect_good(IR_OP_SCALAR, &to_int);
  mul.kind = (ir_scalar_kind)99;
  expect_bad(IR_OP_SCALAR, &mul, "kind 99 is unknown");
  ir_check ge = {.kind = IR_SCALAR_KIND_GE, .a = val(i), .b = lit(1), .message = "s0 >= 1"};
  expect_good(IR_OP_CHECK, &ge);
  ge.kind = IR_SCALAR_KIND_ADD;
  expect_bad(IR_OP_CHECK, &ge, "kind: expected a comparison, got add");
  ir_item item = {.x = slot(DTYPE_I64, 2, 1, -1), .out = i};
  expect_good(IR_OP_ITEM, &item);
  item.x = slot(DTYPE_I64, 1, 2);
  expect_bad(IR_OP_ITEM, &item, "expected a single element, got shape (2)");
  item.x = slot(DTYPE_F16, 0);
  expect_bad(IR_OP_ITEM, &item, "out: expected a value of type float, got value 0 of type int");
}

static void reshapes(void **state) {
  (void)state;
  fixture_reset();
  uint32_t x = slot(DTYPE_F32, 2, 4, 6), unknown = int_value(false, 0), known = int_value(true, 3);
  ir_reshape op = {.x = x, .shape = INTS(lit(8), val(known)), .out = slot(DTYPE_F32, 2, 8, 3)};
  expect_good(IR_OP_RESHAPE, &op);
  op.shape = (ir_int_or_vids)INTS(val(unknown), lit(3));
  expect_good(IR_OP_RESHAPE, &op);
  op.shape = (ir_int_or_vids)INTS(lit(8), lit(4));
  expect_bad(IR_OP_RESHAPE, &op, "shape (8, 4) of 32 elements does not fit x (4, 6) of 24");
  op.shape = (ir_int_or_vids)INTS(lit(-1), lit(24));
  expect_bad(IR_OP_RESHAPE, &op, "shape: expected dimensions of 0 or more, got -1 as dimension 0");
  op.shape = (ir_int_or_vids)INTS(lit(INT64_MAX), lit(3));
  expect_bad(IR_OP_RESHAPE, &op, "shape has too many elements");
  op.shape = (ir_int_or_vids)INTS(lit(24));
  expect_bad(IR_OP_RESHAPE, &op, "out: expected F32 (24), got F32 (8, 3)");
  op.shape =
      (ir_int_or_vids)INTS(lit(1), lit(1), lit(1), lit(1), lit(1), lit(1), lit(1), lit(1), lit(24));
  expect_bad(IR_OP_RESHAPE, &op, "9 dimensions, at most 8");
  op = (ir_reshape){
      .x = slot(DTYPE_F32, 2, -1, 0), .shape = INTS(lit(0)), .out = slot(DTYPE_F32, 1, 0)};
  expect_good(IR_OP_RESHAPE, &op);
}

static void permutes_and_expands(void **state) {
  (void)state;
  fixture_reset();
  uint32_t x = slot(DTYPE_F32, 3, 2, 3, -1);
  ir_permute p = {.x = x, .dims = I32S(2, 0, -2), .out = slot(DTYPE_F32, 3, 7, 2, 3)};
  expect_good(IR_OP_PERMUTE, &p);
  p.dims = (ir_i32s)I32S(2, 0, 0);
  expect_bad(IR_OP_PERMUTE, &p, "axis 0 is listed twice");
  p.dims = (ir_i32s)I32S(2, 0);
  expect_bad(IR_OP_PERMUTE, &p, "dims: expected 3 entries, got 2");
  p.dims = (ir_i32s)I32S(2, 0, 5);
  expect_bad(IR_OP_PERMUTE, &p, "axis 5 out of range for rank 3");
  uint32_t y = slot(DTYPE_I8, 2, 1, 3);
  ir_expand e = {.x = y, .shape = INTS(lit(4), lit(2), lit(3)), .out = slot(DTYPE_I8, 3, 4, 2, 3)};
  expect_good(IR_OP_EXPAND, &e);
  e.shape = (ir_int_or_vids)INTS(lit(4), lit(2), lit(5));
  expect_bad(IR_OP_EXPAND, &e, "dimension 1 of size 3 does not expand to 5");
  e.shape = (ir_int_or_vids)INTS(lit(3));
  expect_bad(IR_OP_EXPAND, &e, "shape: expected at least x's 2 dimensions, got 1");
  rule_context context = fixture_context();
  tensor out;
  e.shape = (ir_int_or_vids)INTS(lit(4), lit(2), lit(3));
  assert_true(view_expand(&context, &e, &fix.tensors[y], &out));
  assert_int_equal(out.strides[0], 0);
  assert_int_equal(out.strides[1], 0);
  assert_int_equal(out.strides[2], 1);
  p.dims = (ir_i32s)I32S(-1, 0);
  assert_true(view_permute(&context, &p, &fix.tensors[y], &out));
  assert_int_equal(out.dims[0], 3);
  assert_int_equal(out.strides[0], 1);
  assert_int_equal(out.strides[1], 3);
}

static void slices(void **state) {
  (void)state;
  fixture_reset();
  uint32_t x = slot(DTYPE_F32, 2, 10, 4), n = int_value(false, 0);
  ir_slice s = {.x = x,
                .axis = 0,
                .start = lit(1),
                .stop = lit(-1),
                .step = lit(3),
                .out = slot(DTYPE_F32, 2, 3, 4)};
  expect_good(IR_OP_SLICE, &s);
  s.stop = (ir_int_or_vid){.vid = IR_NONE};
  expect_good(IR_OP_SLICE, &s);
  s.stop = val(n);
  expect_good(IR_OP_SLICE, &s);
  s.stop = lit(9), s.step = lit(0);
  expect_bad(IR_OP_SLICE, &s, "step: expected at least 1, got 0");
  s.step = lit(INT64_MAX);
  expect_bad(IR_OP_SLICE, &s, "out: expected F32 (1, 4), got F32 (3, 4)");
  s.axis = 2;
  expect_bad(IR_OP_SLICE, &s, "axis 2 out of range for rank 2");
  ir_select sel = {.x = x, .axis = -2, .index = lit(-10), .out = slot(DTYPE_F32, 1, 4)};
  expect_good(IR_OP_SELECT, &sel);
  sel.index = lit(10);
  expect_bad(IR_OP_SELECT, &sel, "index 10 out of range for axis 0 of size 10");
  sel.index = val(n);
  expect_good(IR_OP_SELECT, &sel);
  ir_flip f = {.x = x, .axes = I32S(0, 1), .out = x};
  expect_good(IR_OP_FLIP, &f);
  f.axes = (ir_i32s)I32S(0, -2);
  expect_bad(IR_OP_FLIP, &f, "axis 0 is listed twice");
}

/* Accepts strides up to the last element of x, and none before the first. */
static void strides_within(void **state) {
  (void)state;
  fixture_reset();
  uint32_t x = slot(DTYPE_F32, 1, 10), n = int_value(false, 0);
  ir_as_strided s = {.x = x,
                     .shape = INTS(lit(3), lit(2)),
                     .strides = INTS(lit(4), lit(1)),
                     .offset = lit(0),
                     .out = slot(DTYPE_F32, 2, 3, 2)};
  expect_good(IR_OP_AS_STRIDED, &s);
  s.offset = lit(1);
  expect_bad(IR_OP_AS_STRIDED, &s, "elements 1 to 10 of x, which has 10");
  s.strides = (ir_int_or_vids)INTS(lit(-4), lit(1));
  s.offset = lit(8);
  expect_good(IR_OP_AS_STRIDED, &s);
  s.offset = lit(7);
  expect_bad(IR_OP_AS_STRIDED, &s, "elements -1 to 8 of x, which has 10");
  s.strides = (ir_int_or_vids)INTS(lit(INT64_MAX), lit(1));
  expect_bad(IR_OP_AS_STRIDED, &s, "strides reach beyond 64 bits");
  s.strides = (ir_int_or_vids)INTS(val(n), lit(1));
  expect_good(IR_OP_AS_STRIDED, &s);
}

static ir_operand input(uint32_t i) {
  return (ir_operand){.source = IR_OPERAND_SOURCE_INPUT, .index = i};
}
static ir_operand earlier(uint32_t i) {
  return (ir_operand){.source = IR_OPERAND_SOURCE_STEP, .index = i};
}
static ir_operand imm_int(int64_t v) {
  return (ir_operand){.source = IR_OPERAND_SOURCE_INT, .i = v};
}
static ir_operand imm_float(double v) {
  return (ir_operand){.source = IR_OPERAND_SOURCE_FLOAT, .f = v};
}
static ir_operand scalar(uint32_t i) {
  return (ir_operand){.source = IR_OPERAND_SOURCE_VALUE, .index = i};
}

#define STEP(KIND, DTYPE, ...)                                                              \
  {                                                                                         \
    KIND, DTYPE, {                                                                          \
      (ir_operand[]){__VA_ARGS__}, sizeof((ir_operand[]){__VA_ARGS__}) / sizeof(ir_operand) \
    }                                                                                       \
  }

static void lists_of_steps(void **state) {
  (void)state;
  fixture_reset();
  uint32_t a = slot(DTYPE_F32, 2, 3, 1), b = slot(DTYPE_F32, 1, 4), m = slot(DTYPE_BOOL, 0);
  ir_step steps[] = {STEP(IR_STEP_KIND_ADD, DTYPE_F32, input(0), input(1)),
                     STEP(IR_STEP_KIND_GT, DTYPE_BOOL, earlier(0), imm_float(0)),
                     STEP(IR_STEP_KIND_LOGICAL_AND, DTYPE_BOOL, earlier(1), input(2)),
                     STEP(IR_STEP_KIND_WHERE, DTYPE_F32, earlier(2), earlier(0), imm_float(-1)),
                     STEP(IR_STEP_KIND_CAST, DTYPE_I8, earlier(3))};
  ir_elementwise op = {
      .inputs = TIDS(a, b, m), .steps = {steps, 5}, .out = slot(DTYPE_I8, 2, 3, 4)};
  expect_good(IR_OP_ELEMENTWISE, &op);
  op.steps.count = 4;
  expect_bad(IR_OP_ELEMENTWISE, &op, "out: expected F32 (3, 4), got I8 (3, 4)");
  op.steps.count = 0;
  expect_bad(IR_OP_ELEMENTWISE, &op, "steps: expected 1 to 64, got 0");
  op.steps.count = 5;
  op.inputs = (ir_u32s)TIDS(a, slot(DTYPE_F32, 1, 4), slot(DTYPE_BOOL, 2, 2, 4));
  expect_bad(IR_OP_ELEMENTWISE, &op, "shapes (3, 4) and (2, 4) do not broadcast");
  op.inputs = (ir_u32s)TIDS(a, a, a, a, a, a, a, a, a);
  expect_bad(IR_OP_ELEMENTWISE, &op, "9 inputs, at most 8");
}

typedef struct bad_step {
  ir_step step;
  const char *text;
} bad_step;

static void bad_steps(void **state) {
  (void)state;
  fixture_reset();
  uint32_t f = slot(DTYPE_F32, 1, 4), i = slot(DTYPE_I8, 1, 4), b = slot(DTYPE_BOOL, 1, 4);
  uint32_t vi = int_value(false, 0), vf = other_value(IR_VALUE_TYPE_FLOAT);
  bad_step cases[] = {
      {STEP(IR_STEP_KIND_ADD, DTYPE_F32, input(0)), "step 0 (add)"},
      {STEP(IR_STEP_KIND_ADD, DTYPE_F32, input(0)), "operands: expected 2, got 1"},
      {STEP(IR_STEP_KIND_ADD, DTYPE_F32, input(0), input(3)), "operand 1 is input 3 of 3"},
      {STEP(IR_STEP_KIND_ADD, DTYPE_F32, input(0), earlier(0)), "operand 1 is earlier step 0 of 0"},
      {STEP(IR_STEP_KIND_ADD, DTYPE_F32, input(0), scalar(2)), "operand 1 is value 2 of 2"},
      {STEP(IR_STEP_KIND_ADD, DTYPE_F32, input(0), input(1)), "operand 1: expected F32, got I8"},
      {STEP(IR_STEP_KIND_ADD, DTYPE_F64, input(0), input(0)), "result: expected F32, got F64"},
      {STEP(IR_STEP_KIND_ADD, DTYPE_I8, input(1), imm_int(128)),
       "operand 1: expected one of I8, got the integer immediate 128"},
      {STEP(IR_STEP_KIND_ADD, DTYPE_I8, input(1), imm_float(1)),
       "operand 1: expected one of I8, got a float immediate"},
      {STEP(IR_STEP_KIND_ADD, DTYPE_F32, input(0), imm_int(1)),
       "operand 1: expected one of F32, got the integer immediate 1"},
      {STEP(IR_STEP_KIND_ADD, DTYPE_I8, input(1), scalar(vf)), "value 1, which does not fit I8"},
      {STEP(IR_STEP_KIND_ADD, DTYPE_BOOL, input(2), scalar(vi)),
       "value 0, which does not fit BOOL"},
      {STEP(IR_STEP_KIND_SQRT, DTYPE_I8, input(1)),
       "operands are I8, which this step does not accept"},
      {STEP(IR_STEP_KIND_NEG, DTYPE_BOOL, input(2)),
       "operands are BOOL, which this step does not accept"},
      {STEP(IR_STEP_KIND_BITWISE_AND, DTYPE_F32, input(0), input(0)),
       "operands are F32, which this step does not accept"},
      {STEP(IR_STEP_KIND_EQ, DTYPE_F32, input(0), input(0)), "result: expected BOOL, got F32"},
      {STEP(IR_STEP_KIND_EQ, DTYPE_BOOL, imm_int(1), imm_int(2)),
       "at least one operand must be an input or a step"},
      {STEP(IR_STEP_KIND_CAST, DTYPE_I8, imm_int(1)),
       "at least one operand must be an input or a step"},
      {STEP(IR_STEP_KIND_WHERE, DTYPE_F32, input(1), input(0), input(0)),
       "operand 0: expected BOOL, got I8"},
      {STEP(IR_STEP_KIND_WHERE, DTYPE_F32, input(2), input(0), input(1)),
       "operand 2: expected F32, got I8"},
      {{(ir_step_kind)200, DTYPE_F32, {NULL, 0}}, "unknown kind 200"},
      {{IR_STEP_KIND_ADD, (dtype)77, {NULL, 0}}, "unknown dtype 77"},
      {STEP(IR_STEP_KIND_NEG, DTYPE_F32, {.source = (ir_operand_source)9}), "unknown source"},
  };
  for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
    ir_elementwise op = {.inputs = TIDS(f, i, b), .steps = {&cases[k].step, 1}, .out = f};
    expect_bad(IR_OP_ELEMENTWISE, &op, cases[k].text);
  }
}

static void lists_without_inputs(void **state) {
  (void)state;
  fixture_reset();
  uint32_t v = int_value(false, 0);
  ir_step steps[] = {STEP(IR_STEP_KIND_COPY, DTYPE_I64, scalar(v)),
                     STEP(IR_STEP_KIND_ADD, DTYPE_I64, earlier(0), imm_int(INT64_MAX))};
  ir_elementwise op = {.steps = {steps, 2}, .out = slot(DTYPE_I64, 2, 3, 4)};
  expect_good(IR_OP_ELEMENTWISE, &op);
  op.out = slot(DTYPE_I64, 0);
  expect_good(IR_OP_ELEMENTWISE, &op);
  op.out = slot(DTYPE_I32, 0);
  expect_bad(IR_OP_ELEMENTWISE, &op, "out: expected I64 (), got I32 ()");
}

static void joins(void **state) {
  (void)state;
  fixture_reset();
  uint32_t a = slot(DTYPE_F32, 2, 2, 3), b = slot(DTYPE_F32, 2, -1, 3),
           e = slot(DTYPE_F32, 2, 0, 3);
  ir_cat op = {.xs = TIDS(a, e, a), .axis = -2, .out = slot(DTYPE_F32, 2, 4, 3)};
  expect_good(IR_OP_CAT, &op);
  op.xs = (ir_u32s)TIDS(a, b);
  expect_good(IR_OP_CAT, &op);
  op.xs = (ir_u32s)TIDS(a, a, a);
  expect_bad(IR_OP_CAT, &op, "out: expected F32 (6, 3), got F32 (4, 3)");
  op.xs = (ir_u32s)TIDS(a, slot(DTYPE_F32, 2, 2, 4));
  expect_bad(IR_OP_CAT, &op, "expected the shape of (2, 3) except at axis 0, got (2, 4); xs[1]");
  op.xs = (ir_u32s)TIDS(a, slot(DTYPE_F16, 2, 2, 3));
  expect_bad(IR_OP_CAT, &op, "expected F32, got F16");
  op.xs = (ir_u32s)TIDS(a, slot(DTYPE_F32, 1, 3));
  expect_bad(IR_OP_CAT, &op, "expected rank 2, got 1");
  op.xs.count = 0;
  expect_bad(IR_OP_CAT, &op, "xs is empty");
  ir_copy copy = {.x = a, .out = slot(DTYPE_F64, 2, 2, 3)};
  expect_bad(IR_OP_COPY, &copy, "out: expected F32 (2, 3), got F64 (2, 3)");
}

static void pads(void **state) {
  (void)state;
  fixture_reset();
  uint32_t x = slot(DTYPE_I8, 2, 3, 4), n = int_value(false, 0);
  ir_pad p = {.x = x,
              .before = INTS(lit(1), lit(-1)),
              .after = INTS(lit(0), lit(2)),
              .value = -128,
              .out = slot(DTYPE_I8, 2, 4, 5)};
  expect_good(IR_OP_PAD, &p);
  p.value = 0.5;
  expect_bad(IR_OP_PAD, &p, "value 0.5 does not fit I8");
  p.value = 0, p.before = (ir_int_or_vids)INTS(lit(-4), lit(0)),
  p.after = (ir_int_or_vids)INTS(lit(5), lit(0));
  expect_bad(IR_OP_PAD, &p, "-4 crops more than the size 3; dimension 0");
  p.before = (ir_int_or_vids)INTS(lit(-2), lit(0)), p.after = (ir_int_or_vids)INTS(lit(-2), lit(0));
  expect_bad(IR_OP_PAD, &p, "-2 and -2 crop more than the size 3");
  p.after = (ir_int_or_vids)INTS(lit(INT64_MAX), lit(0)),
  p.before = (ir_int_or_vids)INTS(lit(1), lit(0));
  expect_bad(IR_OP_PAD, &p, "padding is too large");
  p.mode = IR_PAD_MODE_REFLECT, p.before = (ir_int_or_vids)INTS(lit(3), lit(0));
  expect_bad(IR_OP_PAD, &p, "reflect padding: expected less than the size 3, got 3");
  p.mode = IR_PAD_MODE_CIRCULAR, p.before = (ir_int_or_vids)INTS(lit(4), lit(0));
  expect_bad(IR_OP_PAD, &p, "circular padding: expected at most the size 3, got 4");
  p.before = (ir_int_or_vids)INTS(lit(-1), lit(0));
  expect_bad(IR_OP_PAD, &p, "circular padding: expected 0 or more, got -1");
  p.mode = IR_PAD_MODE_REPLICATE, p.after = (ir_int_or_vids)INTS(lit(0), lit(0)),
  p.out = slot(DTYPE_I8, 2, 2, 4);
  expect_good(IR_OP_PAD, &p);
  p.before = (ir_int_or_vids)INTS(val(n), lit(9)), p.after = (ir_int_or_vids)INTS(lit(9), lit(0)),
  p.out = slot(DTYPE_I8, 2, 99, 13);
  expect_good(IR_OP_PAD, &p);
  p.before = (ir_int_or_vids)INTS(lit(0));
  expect_bad(IR_OP_PAD, &p, "before and after: expected 2 entries each, got 1 and 2");
}

static void made_of_numbers(void **state) {
  (void)state;
  fixture_reset();
  ir_triangle t = {.x = slot(DTYPE_F32, 1, 3), .out = slot(DTYPE_F32, 1, 3)};
  expect_bad(IR_OP_TRIANGLE, &t, "x: expected rank 2 or more, got 1");
  ir_arange a = {.start = lit(0), .step = lit(1), .out = slot(DTYPE_I64, 1, 5)};
  expect_good(IR_OP_ARANGE, &a);
  a.out = slot(DTYPE_F32, 1, 5);
  expect_bad(IR_OP_ARANGE, &a, "out is F32, so start_float and step_float are needed");
  a.start_float = flit(0), a.step_float = flit(0.5);
  expect_good(IR_OP_ARANGE, &a);
  a.out = slot(DTYPE_BOOL, 1, 5);
  expect_bad(IR_OP_ARANGE, &a, "out: expected a float or integer dtype, got BOOL");
  a.out = slot(DTYPE_F32, 2, 5, 1);
  expect_bad(IR_OP_ARANGE, &a, "out: expected rank 1, got 2");
  ir_full f = {.int_value = lit(256), .out = slot(DTYPE_U8, 3, 1, 2, 3)};
  expect_bad(IR_OP_FULL, &f, "int_value 256 does not fit U8");
  f.int_value = lit(255);
  expect_good(IR_OP_FULL, &f);
  f.out = slot(DTYPE_F64, 0);
  expect_bad(IR_OP_FULL, &f, "out is F64, so value is needed");
  f.value = flit(1e300);
  expect_good(IR_OP_FULL, &f);
}

/* Returns a slot of `rows` rows of 64, encoded as int4 in groups of 32. */
static uint32_t encoded(int rows, uint8_t axis) {
  uint32_t tid = slot(DTYPE_F32, 2, rows, 64);
  fix.tensors[tid].encoding =
      (encoding){.kind = ENCODING_GROUPS, .axis = axis, .bits = 4, .scale = DTYPE_F16, .group = 32};
  return tid;
}

/* Weights (5, 2, 32) with rows along axis 1, as convolutions read them, and along others. */
static void encoded_convolutions(void **state) {
  (void)state;
  fixture_reset();
  uint32_t w = slot(DTYPE_F32, 3, 5, 2, 32), x = slot(DTYPE_F16, 3, 3, 2, 40),
           x5 = slot(DTYPE_BF16, 3, 3, 5, 9);
  encoding *code = &fix.tensors[w].encoding;
  *code = (encoding){.kind = ENCODING_GROUPS, .axis = 1, .bits = 8, .scale = DTYPE_F32};
  ir_conv c = {.x = x,
               .weight = w,
               .bias = slot(DTYPE_F16, 1, 5),
               .stride = I32S(1),
               .padding = I32S(0),
               .dilation = I32S(1),
               .groups = 1,
               .out = slot(DTYPE_F16, 3, 3, 5, 9)};
  ir_conv_transpose t = {.x = x5,
                         .weight = w,
                         .bias = IR_NONE,
                         .stride = I32S(1),
                         .padding = I32S(0),
                         .output_padding = I32S(0),
                         .dilation = I32S(1),
                         .groups = 1,
                         .out = slot(DTYPE_BF16, 3, 3, 2, 40)};
  expect_good(IR_OP_CONV, &c);
  expect_good(IR_OP_CONV_TRANSPOSE, &t);
  code->axis = 2;
  expect_bad(IR_OP_CONV, &c, "weight: expected encoded rows along axis 1, got axis 2");
  expect_bad(IR_OP_CONV_TRANSPOSE, &t, "weight: expected encoded rows along axis 1, got axis 2");
  code->axis = 1, c.x = slot(DTYPE_F64, 3, 3, 2, 40);
  expect_bad(IR_OP_CONV, &c, "x: expected F32, F16 or BF16 as weight is encoded, got F64");
  c.x = w, c.weight = slot(DTYPE_F32, 3, 5, 2, 32);
  expect_bad(IR_OP_CONV, &c, "expected a plain tensor (Dequantize makes one), got int8");
}

static void encodings(void **state) {
  (void)state;
  fixture_reset();
  uint32_t w = encoded(5, 1), whole = encoded(5, 0), index = slot(DTYPE_I64, 1, 3);
  uint32_t f64 = slot(DTYPE_F64, 2, 3, 64), plain = slot(DTYPE_F32, 2, 5, 64);
  ir_copy copy = {.x = w, .out = slot(DTYPE_F32, 2, 5, 64)};
  expect_bad(IR_OP_COPY, &copy,
             "x (tensor 0): expected a plain tensor (Dequantize makes one), got int4:32");
  ir_dequantize d = {.x = w, .out = slot(DTYPE_BF16, 2, 5, 64)};
  expect_good(IR_OP_DEQUANTIZE, &d);
  d.out = slot(DTYPE_F64, 2, 5, 64);
  expect_bad(IR_OP_DEQUANTIZE, &d, "out: expected F32, F16 or BF16, got F64");
  d.out = slot(DTYPE_F32, 2, 5, 63);
  expect_bad(IR_OP_DEQUANTIZE, &d, "out");
  d.x = plain;
  expect_bad(IR_OP_DEQUANTIZE, &d, "x: expected an encoded constant, got a plain tensor");
  ir_index_select pick = {.x = w, .index = index, .out = slot(DTYPE_F32, 2, 3, 64)};
  expect_good(IR_OP_INDEX_SELECT, &pick);
  pick.axis = 1;
  expect_bad(IR_OP_INDEX_SELECT, &pick,
             "x: expected encoded rows along axis 1, picked along axis 0, got axes 1 and 1");
  pick.axis = 0, pick.x = whole;
  expect_bad(IR_OP_INDEX_SELECT, &pick,
             "x: expected encoded rows along axis 1, picked along axis 0, got axes 0 and 0");
  ir_matmul m = {.a = slot(DTYPE_F16, 3, 2, 3, 64),
                 .b = w,
                 .bias = IR_NONE,
                 .alpha = 1,
                 .beta = 1,
                 .out = slot(DTYPE_F16, 3, 2, 3, 5),
                 .b_transposed = true};
  expect_good(IR_OP_MATMUL, &m);
  m.b_transposed = false;
  expect_bad(IR_OP_MATMUL, &m, "b_transposed: expected true as b is encoded, got false");
  m.b = plain, m.b_transposed = true;
  expect_bad(IR_OP_MATMUL, &m, "b_transposed: expected false as b is plain, got true");
  m.b = whole;
  expect_bad(IR_OP_MATMUL, &m,
             "expected rank 2 with encoded rows along axis 1, got rank 2 and axis 0");
  m.a = f64, m.b = w;
  expect_bad(IR_OP_MATMUL, &m, "a: expected F32, F16 or BF16 as b is encoded, got F64");
  m.a = w, m.b = plain, m.b_transposed = false;
  expect_bad(IR_OP_MATMUL, &m,
             "a (tensor 0): expected a plain tensor (Dequantize makes one), got int4");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(scalars),
      cmocka_unit_test(reshapes),
      cmocka_unit_test(permutes_and_expands),
      cmocka_unit_test(slices),
      cmocka_unit_test(strides_within),
      cmocka_unit_test(lists_of_steps),
      cmocka_unit_test(bad_steps),
      cmocka_unit_test(lists_without_inputs),
      cmocka_unit_test(joins),
      cmocka_unit_test(pads),
      cmocka_unit_test(made_of_numbers),
      cmocka_unit_test(encodings),
      cmocka_unit_test(encoded_convolutions),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
