/* Tests programs that are built call by call. They run like the same program from JSON, errors name
 * the node and the field, and no arguments make a call crash. */
#include "test/serialize/sample.h"

#include "clave_builder.h"
#include "ops/ops.h"
#include "serialize/limits.h"
#include "test/api/expect.h"

enum { ROWS = 2, IN = 3, OUT = 2 };
static float weights[OUT * IN] = {1, -2, 0.5F, 3, 1, -1}, biases[OUT] = {0.25F, -4};

/* y = relu(x @ w.T + b), x: (batch, 3). */
typedef struct linear {
  clave_builder *b;
  clave_id batch, x, w, bias, y, wt, product;
} linear;

static linear declare_linear(bool copy) {
  const int64_t shape[] = {OUT, IN};
  clave_tensor tensor = clave_tensor_make(CLAVE_F32, 2, shape, weights);
  clave_tensor bias = clave_tensor_make(CLAVE_F32, 1, shape, biases);
  linear linear;
  good(clave_builder_create(&linear.b));
  linear.batch = clave_builder_value(linear.b, "batch", CLAVE_I64, 1, 8);
  const int64_t in[] = {0, IN}, out[] = {0, OUT}, transposed[] = {IN, OUT};
  const clave_id values[] = {linear.batch, 0};
  linear.y = clave_builder_tensor(linear.b, CLAVE_SLOT_OUTPUT, "y", CLAVE_F32, 2, out, values);
  linear.wt =
      clave_builder_tensor(linear.b, CLAVE_SLOT_TEMPORARY, "", CLAVE_F32, 2, transposed, NULL);
  linear.x = clave_builder_tensor(linear.b, CLAVE_SLOT_INPUT, "x", CLAVE_F32, 2, in, values);
  linear.product =
      clave_builder_tensor(linear.b, CLAVE_SLOT_TEMPORARY, "product", CLAVE_F32, 2, out, values);
  linear.w = clave_builder_constant(linear.b, "weight", &tensor, copy);
  linear.bias = clave_builder_constant(linear.b, "bias", &bias, copy);
  clave_builder_method(linear.b, "forward");
  clave_builder_input(linear.b, "x", linear.x);
  return linear;
}

static void add_permute(const linear *linear) {
  clave_builder_op(linear->b, "Permute", "t");
  clave_builder_set_tensor(linear->b, "x", linear->w);
  clave_builder_set_ints(linear->b, "dims", (const int32_t[]){1, 0}, 2);
  clave_builder_set_tensor(linear->b, "out", linear->wt);
}

static void add_matmul(const linear *linear) {
  clave_builder_op(linear->b, "matmul", "linear");
  clave_builder_set_tensor(linear->b, "a", linear->x);
  clave_builder_set_tensor(linear->b, "b", linear->wt);
  clave_builder_set_tensor(linear->b, "bias", linear->bias);
  clave_builder_set_tensor(linear->b, "out", linear->product);
}

static void add_relu(const linear *linear) {
  const clave_operand operand = {.source = CLAVE_OPERAND_INPUT};
  clave_builder_op(linear->b, "Elementwise", "relu");
  clave_builder_set_tensors(linear->b, "inputs", &linear->product, 1);
  clave_builder_step(linear->b, "relu", CLAVE_F32, &operand, 1);
  clave_builder_set_tensor(linear->b, "out", linear->y);
}

static linear build_linear(bool copy) {
  linear linear = declare_linear(copy);
  add_permute(&linear);
  add_matmul(&linear);
  add_relu(&linear);
  clave_builder_output(linear.b, "y", linear.y);
  return linear;
}

static clave_program *finish(clave_builder *builder) {
  clave_program *program;
  good(clave_builder_finish(builder, &program));
  clave_builder_destroy(builder);
  return program;
}

static void run(clave_program *program, float *out) {
  float x[ROWS * IN] = {1, 2, 3, -1, 0.5F, 4};
  const int64_t dims[] = {ROWS, IN};
  clave_tensor in = clave_tensor_make(CLAVE_F32, 2, dims, x), tensor;
  clave_device *device;
  clave_session *session;
  good(clave_device_open("cpu", NULL, &device));
  good(clave_session_create(program, device, NULL, &session));
  good(clave_session_set_input(session, NULL, 0, &in));
  good(clave_session_run(session, NULL));
  good(clave_session_output(session, NULL, 0, &tensor));
  assert_int_equal(tensor.dims[0], ROWS);
  memcpy(out, tensor.data, ROWS * OUT * sizeof *out);
  clave_session_destroy(session);
  clave_device_destroy(device);
}

static void expect_results(clave_program *program) {
  static const float want[] = {0, 0, 0.25F, 0};
  float got[ROWS * OUT];
  run(program, got);
  assert_memory_equal(got, want, sizeof want);
}

static void test_runs(void **state) {
  (void)state;
  for (int copy = 0; copy < 2; copy++) {
    clave_program *program = finish(build_linear(copy).b);
    expect_results(program);
    clave_program_destroy(program);
  }
}

/* A program that is built, saved and loaded in both formats computes the same numbers. */
static void test_round_trip(void **state) {
  (void)state;
  static const char *const names[] = {"built.clv", "built.json"};
  clave_program *built = finish(build_linear(true).b), *loaded;
  for (int i = 0; i < 2; i++) {
    char *path = in_folder(names[i]);
    good(clave_program_save(built, path));
    good(clave_program_load(path, NULL, &loaded));
    expect_results(loaded);
    clave_program_destroy(loaded);
    free(path);
  }
  clave_program_destroy(built);
}

static void test_slots_are_in_order(void **state) {
  (void)state;
  static const char *const names[] = {"weight", "bias", "x", "y", "", "product"};
  static const clave_slot_kind kinds[] = {CLAVE_SLOT_CONSTANT,  CLAVE_SLOT_CONSTANT,
                                          CLAVE_SLOT_INPUT,     CLAVE_SLOT_OUTPUT,
                                          CLAVE_SLOT_TEMPORARY, CLAVE_SLOT_TEMPORARY};
  linear linear = build_linear(true);
  clave_builder_producer(linear.b, "by hand");
  clave_builder_metadata(linear.b, "{\"a\": 1}");
  clave_builder_method_metadata(linear.b, "{\"b\": 2}");
  clave_program *program = finish(linear.b);
  clave_program_info program_info = {.size = sizeof program_info};
  clave_method_info method = {.size = sizeof method};
  good(clave_program_get_info(program, &program_info));
  good(clave_program_method(program, 0, &method));
  assert_string_equal(program_info.producer, "by hand");
  assert_string_equal(program_info.metadata, "{\"a\": 1}");
  assert_string_equal(method.metadata, "{\"b\": 2}");
  for (uint32_t i = 0; i < 6; i++) {
    clave_tensor_info info = {.size = sizeof info};
    good(clave_program_slot(program, i, &info));
    assert_string_equal(info.name, names[i]);
    assert_int_equal(info.kind, kinds[i]);
  }
  clave_program_destroy(program);
}

/* Strided data are copied in logical order; borrowed data are read in place. */
static void test_constants(void **state) {
  (void)state;
  clave_tensor seen;
  clave_builder *builder;
  const int64_t shape[] = {OUT, IN};
  clave_tensor tensor = clave_tensor_make(CLAVE_F32, 2, shape, weights), turned = tensor;
  turned.dims[0] = IN, turned.dims[1] = OUT;
  turned.strides[0] = 1, turned.strides[1] = IN;
  good(clave_builder_create(&builder));
  clave_builder_method(builder, "forward");
  (void)clave_builder_constant(builder, "borrowed", &tensor, false);
  (void)clave_builder_constant(builder, "turned", &turned, true);
  clave_program *program = finish(builder);
  good(clave_program_constant(program, 0, &seen));
  assert_ptr_equal(seen.data, weights);
  good(clave_program_constant(program, 1, &seen));
  for (int i = 0; i < IN; i++)
    for (int k = 0; k < OUT; k++)
      assert_true(((float *)seen.data)[i * OUT + k] == weights[k * IN + i]);
  clave_program_destroy(program);
}

/* A body of an If has a state that counts its runs. */
static void test_state_and_bodies(void **state) {
  (void)state;
  int64_t one[] = {1}, start[] = {5};
  clave_tensor data[] = {clave_tensor_make(CLAVE_I64, 0, NULL, one),
                         clave_tensor_make(CLAVE_I64, 0, NULL, start)};
  clave_builder *builder;
  good(clave_builder_create(&builder));
  clave_id up = clave_builder_value(builder, "up", CLAVE_BOOL, INT64_MIN, INT64_MAX), sum[2];
  clave_id count =
      clave_builder_tensor(builder, CLAVE_SLOT_STATE, "count", CLAVE_I64, 0, NULL, NULL);
  clave_id next =
      clave_builder_tensor(builder, CLAVE_SLOT_TEMPORARY, "next", CLAVE_I64, 0, NULL, NULL);
  clave_id c[] = {clave_builder_constant(builder, "one", &data[0], true),
                  clave_builder_constant(builder, "start", &data[1], true)};
  clave_builder_initial(builder, count, c[1]);
  clave_builder_method(builder, "forward");
  clave_builder_input(builder, "up", up);
  clave_id bodies[2];
  for (int i = 0; i < 2; i++) {
    const clave_operand operands[] = {{.index = 0}, {.index = 1}};
    bodies[i] = clave_builder_body(builder, i ? "down" : "up", NULL, 0);
    sum[i] = clave_builder_tensor(builder, CLAVE_SLOT_TEMPORARY, "sum", CLAVE_I64, 0, NULL, NULL);
    clave_builder_op(builder, "Elementwise", "sum");
    clave_builder_set_tensors(builder, "inputs", (const clave_id[]){count, c[0]}, 2);
    clave_builder_step(builder, i ? "sub" : "add", CLAVE_I64, operands, 2);
    clave_builder_set_tensor(builder, "out", sum[i]);
    clave_builder_end_body(builder, &sum[i], 1);
  }
  clave_builder_op(builder, "If", "choice");
  clave_builder_set_value(builder, "condition", up);
  clave_builder_set_body(builder, "then_chain", bodies[0]);
  clave_builder_set_body(builder, "else_chain", bodies[1]);
  clave_builder_set_tensors(builder, "results", &next, 1);
  clave_builder_update(builder, count, next);
  clave_program *program = finish(builder);
  clave_device *device;
  clave_session *session;
  good(clave_device_open("cpu", NULL, &device));
  good(clave_session_create(program, device, NULL, &session));
  static const bool ups[] = {true, true, false, true};
  static const int64_t want[] = {6, 7, 6, 7};
  for (int i = 0; i < 4; i++) {
    bool value = ups[i];
    int64_t is;
    clave_tensor tensor = clave_tensor_make(CLAVE_BOOL, 0, NULL, &value);
    good(clave_session_set_input(session, NULL, 0, &tensor));
    good(clave_session_run(session, NULL));
    good(clave_session_read_state(session, 0, &is, sizeof is));
    assert_int_equal(is, want[i]);
  }
  clave_session_destroy(session);
  clave_device_destroy(device);
  clave_program_destroy(program);
}

/* ---------------------------------------------------------------- errors */

static void wrong_field(const linear *linear) { clave_builder_set_int(linear->b, "axis", 1); }
static void wrong_kind(const linear *linear) {
  clave_builder_set_tensor(linear->b, "alpha", linear->x);
}
static void wrong_id(const linear *linear) {
  clave_builder_set_tensor(linear->b, "a", linear->batch);
}
static void no_id(const linear *linear) { clave_builder_set_tensor(linear->b, "a", 0); }
static void strange_id(const linear *linear) {
  clave_builder_set_tensor(linear->b, "a", linear->x + 1000);
}
static void missing_field(const linear *linear) {
  clave_builder_op(linear->b, "Softmax", "s");
  clave_builder_output(linear->b, "y", linear->y);
}
static void no_op(const linear *linear) { clave_builder_op(linear->b, "Blur", "b"); }
static void wide_int(const linear *linear) {
  clave_builder_op(linear->b, "softmax", "s");
  clave_builder_set_int(linear->b, "axis", INT64_MAX);
}
static void no_enum(const linear *linear) {
  clave_builder_op(linear->b, "reduce", "r");
  clave_builder_set_text(linear->b, "kind", "middle");
}
static void no_step(const linear *linear) {
  clave_builder_op(linear->b, "elementwise", "e");
  clave_builder_step(linear->b, "blur", CLAVE_F32, NULL, 0);
}
static void wide_step(const linear *linear) {
  static const clave_operand operands[4];
  clave_builder_op(linear->b, "elementwise", "e");
  clave_builder_step(linear->b, "add", CLAVE_F32, operands, 4);
}
static void step_elsewhere(const linear *linear) {
  clave_builder_step(linear->b, "add", CLAVE_F32, NULL, 0);
}
static void chain_number(const linear *linear) {
  clave_builder_op(linear->b, "If", "i");
  clave_builder_set_int(linear->b, "then_chain", 0);
}
static void chain_missing(const linear *linear) {
  clave_builder_op(linear->b, "If", "i");
  clave_builder_output(linear->b, "y", linear->y);
}
static void wrong_argument(const linear *linear) {
  clave_builder_output(linear->b, "x", linear->x);
}
static void wrong_rank(const linear *linear) {
  (void)clave_builder_tensor(linear->b, CLAVE_SLOT_TEMPORARY, "t", CLAVE_F32, 9, NULL, NULL);
}
static void no_dims(const linear *linear) {
  (void)clave_builder_tensor(linear->b, CLAVE_SLOT_TEMPORARY, "t", CLAVE_F32, 2, NULL, NULL);
}
static void constant_tensor(const linear *linear) {
  (void)clave_builder_tensor(linear->b, CLAVE_SLOT_CONSTANT, "t", CLAVE_F32, 0, NULL, NULL);
}
static void strided_borrow(const linear *linear) {
  const int64_t shape[] = {OUT, IN};
  clave_tensor tensor = clave_tensor_make(CLAVE_F32, 2, shape, weights);
  tensor.strides[1] = 2;
  (void)clave_builder_constant(linear->b, "t", &tensor, false);
}
static void no_data(const linear *linear) {
  const int64_t shape[] = {OUT, IN};
  clave_tensor tensor = clave_tensor_make(CLAVE_F32, 2, shape, NULL);
  (void)clave_builder_constant(linear->b, "t", &tensor, true);
}
static void value_dtype(const linear *linear) {
  (void)clave_builder_value(linear->b, "v", CLAVE_F32, INT64_MIN, INT64_MAX);
}
static void wrong_initial(const linear *linear) {
  clave_builder_initial(linear->b, linear->x, linear->w);
}
static void body_open(const linear *linear) {
  (void)clave_builder_body(linear->b, "body", NULL, 0);
}
static void body_unbegun(const linear *linear) { clave_builder_end_body(linear->b, NULL, 0); }
static void method_in_body(const linear *linear) {
  body_open(linear);
  clave_builder_method(linear->b, "second");
}
static void deep_bodies(const linear *linear) {
  for (int i = 0; i <= LIMIT_CHAIN_DEPTH; i++) body_open(linear);
}
static void verifier_says(const linear *linear) { clave_builder_output(linear->b, "y", linear->y); }

static const struct mistake {
  void (*make)(const linear *linear);
  const char *message;
} mistakes[] = {
    {wrong_field, "Matmul has no field 'axis'; node 1 (linear, matmul)"},
    {wrong_kind, "the field is double and accepts no tensor; field alpha; node 1 (linear, matmul)"},
    {wrong_id, "expected a tensor, got a value; field a; node 1 (linear, matmul)"},
    {no_id, "id 0: expected a tensor, got nothing; field a; node 1 (linear, matmul)"},
    {strange_id, "expected a tensor of this builder, got an unknown id; field a; node 1"},
    {missing_field, "field x is not set; node 2 (s, softmax)"},
    {no_op, "unknown op 'Blur'; node 'b'"},
    {wide_int,
     "expected -2147483648 to 2147483647, got 9223372036854775807; field axis; node 2 (s, "
     "softmax)"},
    {no_enum, "unknown ReduceKind 'middle'; field kind; node 2 (r, reduce)"},
    {no_step, "unknown StepKind 'blur'; step 'blur'; field steps; node 2 (e, elementwise)"},
    {wide_step, "operands: expected at most 3, got 4; step 'add'"},
    {step_elsewhere, "Matmul has no field 'steps'; node 1 (linear, matmul)"},
    {chain_number, "the field is a body and accepts no integer; field then_chain; node 2 (i, if)"},
    {chain_missing, "field then_chain is not set; node 2 (i, if)"},
    {wrong_argument, "tensor 'x': expected kind output, got input; output 'x'"},
    {wrong_rank, "expected rank 0 to 8, got 9; tensor 't'"},
    {no_dims, "expected an array of 2 integers, got NULL or too many; tensor 't'"},
    {constant_tensor, "kind: expected an input, output, state or temporary, got 0; tensor 't'"},
    {strided_borrow, "the data are not contiguous, so they can be copied but not borrowed"},
    {no_data, "the tensor or its data is NULL; constant 't'"},
    {value_dtype, "dtype: expected I64, F64 or BOOL, got 0; value 'v'"},
    {wrong_initial, "tensor 'x': expected kind state, got input; initial value"},
    {body_open, "1 bodies are open: call clave_builder_end_body for each"},
    {body_unbegun, "no body has begun: call clave_builder_body first"},
    {method_in_body, "method 'second' begins inside a body: call clave_builder_end_body first"},
    {deep_bodies, "bodies are nested deeper than 16"},
    {verifier_says, "is read before it is written; output 'y'; method 'forward'"},
};

static void expect_mistake(const struct mistake *mistake) {
  clave_program *program;
  linear linear = declare_linear(false);
  add_permute(&linear);
  add_matmul(&linear);
  assert_null(clave_builder_error(linear.b));
  mistake->make(&linear);
  clave_status st = clave_builder_finish(linear.b, &program);
  assert_null(program);
  assert_int_equal(clave_status_code(st), CLAVE_INVALID);
  if (!strstr(clave_status_message(st), mistake->message))
    fail_msg("%s: no '%s'", clave_status_message(st), mistake->message);
  clave_status_free(st);
  clave_builder_destroy(linear.b);
}

static void test_mistakes(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof mistakes / sizeof *mistakes; i++) expect_mistake(&mistakes[i]);
}

static void test_the_first_error_is_kept(void **state) {
  (void)state;
  clave_program *program;
  linear linear = build_linear(false);
  clave_builder_op(linear.b, "Blur", "");
  assert_non_null(strstr(clave_builder_error(linear.b), "unknown op 'Blur'"));
  clave_builder_op(linear.b, "Sharpen", "");
  assert_int_equal(clave_builder_value(linear.b, "v", CLAVE_I64, 0, 1), 0);
  assert_non_null(strstr(clave_builder_error(linear.b), "unknown op 'Blur'"));
  expect_error(clave_builder_finish(linear.b, &program), "unknown op 'Blur'");
  expect_error(clave_builder_finish(linear.b, &program),
               "the builder has already finished a program");
  assert_int_equal(clave_builder_value(linear.b, "v", CLAVE_I64, 0, 1), 0);
  clave_builder_destroy(linear.b);
  clave_builder_destroy(NULL);
  clave_builder_op(NULL, "Copy", "");
  assert_null(clave_builder_error(NULL));
  expect_error(clave_builder_finish(NULL, &program), "the builder is NULL");
}

static void test_before_the_first_method(void **state) {
  (void)state;
  clave_program *program;
  for (int i = 0; i < 5; i++) {
    clave_builder *builder;
    good(clave_builder_create(&builder));
    if (i == 0) clave_builder_op(builder, "Copy", "c");
    if (i == 1) clave_builder_input(builder, "x", 0);
    if (i == 2) (void)clave_builder_body(builder, "b", NULL, 0);
    if (i == 3) clave_builder_set_int(builder, "axis", 0);
    static const char *const expected[] = {"no method has begun: call clave_builder_method first",
                                           "no method has begun: call clave_builder_method first",
                                           "no method has begun: call clave_builder_method first",
                                           "field 'axis' is set before an op has begun",
                                           "the program has no methods"};
    expect_error(clave_builder_finish(builder, &program), expected[i]);
    clave_builder_destroy(builder);
  }
}

/* ---------------------------------------------------------------- any calls at all */

typedef struct monkey {
  clave_builder *b;
  uint64_t seed;
  clave_id ids[64];
  const ir_table *table;
} monkey;

static uint32_t pick(monkey *monkey, uint32_t n) {
  monkey->seed = monkey->seed * 6364136223846793005u + 1442695040888963407u;
  return (uint32_t)(monkey->seed >> 33) % n;
}

static clave_id any_id(monkey *monkey) { return monkey->ids[pick(monkey, 64)]; }

static void call_declaring(monkey *monkey, uint32_t which) {
  const int64_t dims[] = {pick(monkey, 3), 1, 2};
  const clave_id values[] = {0, pick(monkey, 3) ? 0 : any_id(monkey), 0};
  static float data[64];
  const int64_t shape[] = {2, 2};
  clave_tensor tensor = clave_tensor_make((clave_dtype)pick(monkey, 10), 2, shape, data);
  clave_id *to = &monkey->ids[pick(monkey, 64)];
  if (which == 0)
    *to = clave_builder_tensor(monkey->b, (clave_slot_kind)pick(monkey, 5), "t",
                               (clave_dtype)pick(monkey, 10), (int)pick(monkey, 4), dims, values);
  if (which == 1) *to = clave_builder_value(monkey->b, "v", CLAVE_I64, 0, pick(monkey, 5));
  if (which == 2) *to = clave_builder_constant(monkey->b, "c", &tensor, pick(monkey, 2));
  if (which == 3) *to = clave_builder_body(monkey->b, "b", monkey->ids, pick(monkey, 2));
}

static void call_structure(monkey *monkey, uint32_t which) {
  if (which == 0) clave_builder_method(monkey->b, pick(monkey, 2) ? "one" : "two");
  if (which == 1) clave_builder_input(monkey->b, "i", any_id(monkey));
  if (which == 2) clave_builder_output(monkey->b, "o", any_id(monkey));
  if (which == 3) clave_builder_update(monkey->b, any_id(monkey), any_id(monkey));
  if (which == 4) clave_builder_initial(monkey->b, any_id(monkey), any_id(monkey));
  if (which == 5) clave_builder_end_body(monkey->b, monkey->ids, pick(monkey, 2));
  if (which < 6) return;
  ir_op op = (ir_op)(1 + pick(monkey, IR_OP_COUNT - 1));
  monkey->table = op_table[op].table;
  clave_builder_op(monkey->b, op_table[op].name, "n");
}

static void call_setter(monkey *monkey, uint32_t which) {
  static const char *const texts[] = {"max", "add", "", NULL};
  const int64_t sizes[] = {1, 0};
  const clave_id values[] = {0, any_id(monkey)};
  const int32_t ints[] = {0, -1};
  const clave_operand operands[] = {{.source = (clave_operand_source)pick(monkey, 6),
                                     .index = pick(monkey, 3),
                                     .value = any_id(monkey)}};
  const char *format =
      monkey->table ? monkey->table->fields[pick(monkey, monkey->table->n_fields)].name : "x";
  if (which == 0 || which > 9) clave_builder_set_tensor(monkey->b, format, any_id(monkey));
  if (which == 1) clave_builder_set_tensors(monkey->b, format, monkey->ids, pick(monkey, 4));
  if (which == 2) clave_builder_set_value(monkey->b, format, any_id(monkey));
  if (which == 3) clave_builder_set_int(monkey->b, format, (int64_t)pick(monkey, 5) - 1);
  if (which == 4) clave_builder_set_float(monkey->b, format, 0.5);
  if (which == 5) clave_builder_set_text(monkey->b, format, texts[pick(monkey, 4)]);
  if (which == 6) clave_builder_set_ints(monkey->b, format, ints, pick(monkey, 3));
  if (which == 7) clave_builder_set_sizes(monkey->b, format, sizes, values, pick(monkey, 3));
  if (which == 8) clave_builder_set_body(monkey->b, format, any_id(monkey));
  if (which == 9)
    clave_builder_step(monkey->b, texts[pick(monkey, 4)], CLAVE_F32, operands, pick(monkey, 2));
}

/* Makes random calls, right and wrong. An error ends a builder, so each seed has a new one. */
static void test_any_calls(void **state) {
  (void)state;
  int errors = 0;
  for (uint64_t seed = 0; seed < 20000; seed++) {
    monkey monkey = {.seed = seed};
    clave_program *program;
    good(clave_builder_create(&monkey.b));
    clave_builder_method(monkey.b, "forward");
    for (int i = 0, n = (int)pick(&monkey, 60); i < n; i++) {
      uint32_t kind = pick(&monkey, 4);
      if (kind == 0 || i < 8) call_declaring(&monkey, pick(&monkey, 4));
      if (kind == 1) call_structure(&monkey, pick(&monkey, 12));
      if (kind > 1) call_setter(&monkey, pick(&monkey, 14));
    }
    clave_status st = clave_builder_finish(monkey.b, &program);
    assert_int_equal(st != NULL, program == NULL);
    errors += st != NULL;
    clave_status_free(st);
    clave_program_destroy(program);
    clave_builder_destroy(monkey.b);
  }
  assert_true(errors > 1000 && errors < 20000);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_runs),
      cmocka_unit_test(test_round_trip),
      cmocka_unit_test(test_slots_are_in_order),
      cmocka_unit_test(test_constants),
      cmocka_unit_test(test_state_and_bodies),
      cmocka_unit_test(test_mistakes),
      cmocka_unit_test(test_the_first_error_is_kept),
      cmocka_unit_test(test_before_the_first_method),
      cmocka_unit_test(test_any_calls),
  };
  return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
