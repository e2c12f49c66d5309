/* Programs built by hand: they run as the same program from JSON does, errors name the node and the
 * field, and no call crashes, whatever it is given. */
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
  clave_tensor w = clave_tensor_make(CLAVE_F32, 2, shape, weights);
  clave_tensor bias = clave_tensor_make(CLAVE_F32, 1, shape, biases);
  linear l;
  good(clave_builder_create(&l.b));
  l.batch = clave_builder_value(l.b, "batch", CLAVE_I64, 1, 8);
  const int64_t in[] = {0, IN}, out[] = {0, OUT}, transposed[] = {IN, OUT};
  const clave_id values[] = {l.batch, 0};
  l.y = clave_builder_tensor(l.b, CLAVE_SLOT_OUTPUT, "y", CLAVE_F32, 2, out, values);
  l.wt = clave_builder_tensor(l.b, CLAVE_SLOT_TEMPORARY, "", CLAVE_F32, 2, transposed, NULL);
  l.x = clave_builder_tensor(l.b, CLAVE_SLOT_INPUT, "x", CLAVE_F32, 2, in, values);
  l.product = clave_builder_tensor(l.b, CLAVE_SLOT_TEMPORARY, "product", CLAVE_F32, 2, out, values);
  l.w = clave_builder_constant(l.b, "weight", &w, copy);
  l.bias = clave_builder_constant(l.b, "bias", &bias, copy);
  clave_builder_method(l.b, "forward");
  clave_builder_input(l.b, "x", l.x);
  return l;
}

static void add_permute(const linear *l) {
  clave_builder_op(l->b, "Permute", "t");
  clave_builder_set_tensor(l->b, "x", l->w);
  clave_builder_set_ints(l->b, "dims", (const int32_t[]){1, 0}, 2);
  clave_builder_set_tensor(l->b, "out", l->wt);
}

static void add_matmul(const linear *l) {
  clave_builder_op(l->b, "matmul", "linear");
  clave_builder_set_tensor(l->b, "a", l->x);
  clave_builder_set_tensor(l->b, "b", l->wt);
  clave_builder_set_tensor(l->b, "bias", l->bias);
  clave_builder_set_tensor(l->b, "out", l->product);
}

static void add_relu(const linear *l) {
  const clave_operand x = {.source = CLAVE_OPERAND_INPUT};
  clave_builder_op(l->b, "Elementwise", "relu");
  clave_builder_set_tensors(l->b, "inputs", &l->product, 1);
  clave_builder_step(l->b, "relu", CLAVE_F32, &x, 1);
  clave_builder_set_tensor(l->b, "out", l->y);
}

static linear build_linear(bool copy) {
  linear l = declare_linear(copy);
  add_permute(&l);
  add_matmul(&l);
  add_relu(&l);
  clave_builder_output(l.b, "y", l.y);
  return l;
}

static clave_program *finish(clave_builder *b) {
  clave_program *p;
  good(clave_builder_finish(b, &p));
  clave_builder_destroy(b);
  return p;
}

static void run(clave_program *p, float *out) {
  float x[ROWS * IN] = {1, 2, 3, -1, 0.5F, 4};
  const int64_t dims[] = {ROWS, IN};
  clave_tensor in = clave_tensor_make(CLAVE_F32, 2, dims, x), y;
  clave_device *device;
  clave_session *s;
  good(clave_device_open("cpu", NULL, &device));
  good(clave_session_create(p, device, NULL, &s));
  good(clave_session_set_input(s, NULL, 0, &in));
  good(clave_session_run(s, NULL));
  good(clave_session_output(s, NULL, 0, &y));
  assert_int_equal(y.dims[0], ROWS);
  memcpy(out, y.data, ROWS * OUT * sizeof *out);
  clave_session_destroy(s);
  clave_device_destroy(device);
}

static void expect_results(clave_program *p) {
  static const float want[] = {0, 0, 0.25F, 0};
  float got[ROWS * OUT];
  run(p, got);
  assert_memory_equal(got, want, sizeof want);
}

static void test_runs(void **state) {
  (void)state;
  for (int copy = 0; copy < 2; copy++) {
    clave_program *p = finish(build_linear(copy).b);
    expect_results(p);
    clave_program_destroy(p);
  }
}

/* Built, saved and loaded in both forms: the same numbers. */
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
  linear l = build_linear(true);
  clave_builder_producer(l.b, "by hand");
  clave_builder_metadata(l.b, "{\"a\": 1}");
  clave_builder_method_metadata(l.b, "{\"b\": 2}");
  clave_program *p = finish(l.b);
  clave_program_info program = {.size = sizeof program};
  clave_method_info method = {.size = sizeof method};
  good(clave_program_get_info(p, &program));
  good(clave_program_method(p, 0, &method));
  assert_string_equal(program.producer, "by hand");
  assert_string_equal(program.metadata, "{\"a\": 1}");
  assert_string_equal(method.metadata, "{\"b\": 2}");
  for (uint32_t i = 0; i < 6; i++) {
    clave_tensor_info info = {.size = sizeof info};
    good(clave_program_slot(p, i, &info));
    assert_string_equal(info.name, names[i]);
    assert_int_equal(info.kind, kinds[i]);
  }
  clave_program_destroy(p);
}

/* Strided data are copied as they are seen; what is borrowed is read in place. */
static void test_constants(void **state) {
  (void)state;
  clave_tensor seen;
  clave_builder *b;
  const int64_t shape[] = {OUT, IN};
  clave_tensor t = clave_tensor_make(CLAVE_F32, 2, shape, weights), turned = t;
  turned.dims[0] = IN, turned.dims[1] = OUT;
  turned.strides[0] = 1, turned.strides[1] = IN;
  good(clave_builder_create(&b));
  clave_builder_method(b, "forward");
  (void)clave_builder_constant(b, "borrowed", &t, false);
  (void)clave_builder_constant(b, "turned", &turned, true);
  clave_program *p = finish(b);
  good(clave_program_constant(p, 0, &seen));
  assert_ptr_equal(seen.data, weights);
  good(clave_program_constant(p, 1, &seen));
  for (int i = 0; i < IN; i++)
    for (int k = 0; k < OUT; k++)
      assert_true(((float *)seen.data)[i * OUT + k] == weights[k * IN + i]);
  clave_program_destroy(p);
}

/* A state that counts its runs, in a body of an If. */
static void test_state_and_bodies(void **state) {
  (void)state;
  int64_t one[] = {1}, start[] = {5};
  clave_tensor data[] = {clave_tensor_make(CLAVE_I64, 0, NULL, one),
                         clave_tensor_make(CLAVE_I64, 0, NULL, start)};
  clave_builder *b;
  good(clave_builder_create(&b));
  clave_id up = clave_builder_value(b, "up", CLAVE_BOOL, INT64_MIN, INT64_MAX), sum[2];
  clave_id count = clave_builder_tensor(b, CLAVE_SLOT_STATE, "count", CLAVE_I64, 0, NULL, NULL);
  clave_id next = clave_builder_tensor(b, CLAVE_SLOT_TEMPORARY, "next", CLAVE_I64, 0, NULL, NULL);
  clave_id c[] = {clave_builder_constant(b, "one", &data[0], true),
                  clave_builder_constant(b, "start", &data[1], true)};
  clave_builder_initial(b, count, c[1]);
  clave_builder_method(b, "forward");
  clave_builder_input(b, "up", up);
  clave_id bodies[2];
  for (int i = 0; i < 2; i++) {
    const clave_operand operands[] = {{.index = 0}, {.index = 1}};
    bodies[i] = clave_builder_body(b, i ? "down" : "up", NULL, 0);
    sum[i] = clave_builder_tensor(b, CLAVE_SLOT_TEMPORARY, "sum", CLAVE_I64, 0, NULL, NULL);
    clave_builder_op(b, "Elementwise", "sum");
    clave_builder_set_tensors(b, "inputs", (const clave_id[]){count, c[0]}, 2);
    clave_builder_step(b, i ? "sub" : "add", CLAVE_I64, operands, 2);
    clave_builder_set_tensor(b, "out", sum[i]);
    clave_builder_end_body(b, &sum[i], 1);
  }
  clave_builder_op(b, "If", "choice");
  clave_builder_set_value(b, "condition", up);
  clave_builder_set_body(b, "then_chain", bodies[0]);
  clave_builder_set_body(b, "else_chain", bodies[1]);
  clave_builder_set_tensors(b, "results", &next, 1);
  clave_builder_update(b, count, next);
  clave_program *p = finish(b);
  clave_device *device;
  clave_session *s;
  good(clave_device_open("cpu", NULL, &device));
  good(clave_session_create(p, device, NULL, &s));
  static const bool ups[] = {true, true, false, true};
  static const int64_t want[] = {6, 7, 6, 7};
  for (int i = 0; i < 4; i++) {
    bool value = ups[i];
    int64_t is;
    clave_tensor t = clave_tensor_make(CLAVE_BOOL, 0, NULL, &value);
    good(clave_session_set_input(s, NULL, 0, &t));
    good(clave_session_run(s, NULL));
    good(clave_session_read_state(s, 0, &is, sizeof is));
    assert_int_equal(is, want[i]);
  }
  clave_session_destroy(s);
  clave_device_destroy(device);
  clave_program_destroy(p);
}

/* ---------------------------------------------------------------- errors */

static void wrong_field(const linear *l) { clave_builder_set_int(l->b, "axis", 1); }
static void wrong_kind(const linear *l) { clave_builder_set_tensor(l->b, "alpha", l->x); }
static void wrong_id(const linear *l) { clave_builder_set_tensor(l->b, "a", l->batch); }
static void no_id(const linear *l) { clave_builder_set_tensor(l->b, "a", 0); }
static void strange_id(const linear *l) { clave_builder_set_tensor(l->b, "a", l->x + 1000); }
static void missing_field(const linear *l) {
  clave_builder_op(l->b, "Softmax", "s");
  clave_builder_output(l->b, "y", l->y);
}
static void no_op(const linear *l) { clave_builder_op(l->b, "Blur", "b"); }
static void wide_int(const linear *l) {
  clave_builder_op(l->b, "softmax", "s");
  clave_builder_set_int(l->b, "axis", INT64_MAX);
}
static void no_enum(const linear *l) {
  clave_builder_op(l->b, "reduce", "r");
  clave_builder_set_text(l->b, "kind", "middle");
}
static void no_step(const linear *l) {
  clave_builder_op(l->b, "elementwise", "e");
  clave_builder_step(l->b, "blur", CLAVE_F32, NULL, 0);
}
static void wide_step(const linear *l) {
  static const clave_operand operands[4];
  clave_builder_op(l->b, "elementwise", "e");
  clave_builder_step(l->b, "add", CLAVE_F32, operands, 4);
}
static void step_elsewhere(const linear *l) { clave_builder_step(l->b, "add", CLAVE_F32, NULL, 0); }
static void chain_number(const linear *l) {
  clave_builder_op(l->b, "If", "i");
  clave_builder_set_int(l->b, "then_chain", 0);
}
static void chain_missing(const linear *l) {
  clave_builder_op(l->b, "If", "i");
  clave_builder_output(l->b, "y", l->y);
}
static void wrong_argument(const linear *l) { clave_builder_output(l->b, "x", l->x); }
static void wrong_rank(const linear *l) {
  (void)clave_builder_tensor(l->b, CLAVE_SLOT_TEMPORARY, "t", CLAVE_F32, 9, NULL, NULL);
}
static void no_dims(const linear *l) {
  (void)clave_builder_tensor(l->b, CLAVE_SLOT_TEMPORARY, "t", CLAVE_F32, 2, NULL, NULL);
}
static void constant_tensor(const linear *l) {
  (void)clave_builder_tensor(l->b, CLAVE_SLOT_CONSTANT, "t", CLAVE_F32, 0, NULL, NULL);
}
static void strided_borrow(const linear *l) {
  const int64_t shape[] = {OUT, IN};
  clave_tensor t = clave_tensor_make(CLAVE_F32, 2, shape, weights);
  t.strides[1] = 2;
  (void)clave_builder_constant(l->b, "t", &t, false);
}
static void no_data(const linear *l) {
  const int64_t shape[] = {OUT, IN};
  clave_tensor t = clave_tensor_make(CLAVE_F32, 2, shape, NULL);
  (void)clave_builder_constant(l->b, "t", &t, true);
}
static void value_dtype(const linear *l) {
  (void)clave_builder_value(l->b, "v", CLAVE_F32, INT64_MIN, INT64_MAX);
}
static void wrong_initial(const linear *l) { clave_builder_initial(l->b, l->x, l->w); }
static void body_open(const linear *l) { (void)clave_builder_body(l->b, "body", NULL, 0); }
static void body_unbegun(const linear *l) { clave_builder_end_body(l->b, NULL, 0); }
static void method_in_body(const linear *l) {
  body_open(l);
  clave_builder_method(l->b, "second");
}
static void deep_bodies(const linear *l) {
  for (int i = 0; i <= LIMIT_CHAIN_DEPTH; i++) body_open(l);
}
static void verifier_says(const linear *l) { clave_builder_output(l->b, "y", l->y); }

static const struct mistake {
  void (*make)(const linear *l);
  const char *message;
} mistakes[] = {
    {wrong_field, "Matmul has no field 'axis'; node 1 (linear, matmul)"},
    {wrong_kind, "is double, which takes no tensor; field alpha; node 1 (linear, matmul)"},
    {wrong_id, "expected a tensor, got a value; field a; node 1 (linear, matmul)"},
    {no_id, "id 0: expected a tensor, got nothing; field a; node 1 (linear, matmul)"},
    {strange_id, "expected a tensor of this builder, got none; field a; node 1"},
    {missing_field, "field x is missing; node 2 (s, softmax)"},
    {no_op, "there is no op 'Blur'; node 'b'"},
    {wide_int,
     "expected -2147483648 to 2147483647, got 9223372036854775807; field axis; node 2 (s, "
     "softmax)"},
    {no_enum, "there is no ReduceKind 'middle'; field kind; node 2 (r, reduce)"},
    {no_step, "there is no StepKind 'blur'; step 'blur'; field steps; node 2 (e, elementwise)"},
    {wide_step, "operands: expected at most 3, got 4; step 'add'"},
    {step_elsewhere, "Matmul has no field 'steps'; node 1 (linear, matmul)"},
    {chain_number, "is a body, which takes no integer; field then_chain; node 2 (i, if)"},
    {chain_missing, "field then_chain is missing; node 2 (i, if)"},
    {wrong_argument, "tensor 'x': expected kind output, got input; output 'x'"},
    {wrong_rank, "expected rank 0 to 8, got 9; tensor 't'"},
    {no_dims, "2 integers, none given; tensor 't'"},
    {constant_tensor, "kind: expected an input, output, state or temporary, got 0; tensor 't'"},
    {strided_borrow, "its data are not contiguous: they can be copied, not borrowed"},
    {no_data, "no data are given; constant 't'"},
    {value_dtype, "dtype: expected I64, F64 or BOOL, got 0; value 'v'"},
    {wrong_initial, "tensor 'x': expected kind state, got input; initial value"},
    {body_open, "1 bodies are not ended"},
    {body_unbegun, "no body is begun"},
    {method_in_body, "method 'second' begins in a body"},
    {deep_bodies, "bodies nested deeper than 16"},
    {verifier_says, "is read before it is written; output 'y'; method 'forward'"},
};

static void expect_mistake(const struct mistake *m) {
  clave_program *p;
  linear l = declare_linear(false);
  add_permute(&l);
  add_matmul(&l);
  assert_null(clave_builder_error(l.b));
  m->make(&l);
  clave_status st = clave_builder_finish(l.b, &p);
  assert_null(p);
  assert_int_equal(clave_status_code(st), CLAVE_INVALID);
  if (!strstr(clave_status_message(st), m->message))
    fail_msg("%s: no '%s'", clave_status_message(st), m->message);
  clave_status_free(st);
  clave_builder_destroy(l.b);
}

static void test_mistakes(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof mistakes / sizeof *mistakes; i++) expect_mistake(&mistakes[i]);
}

static void test_the_first_error_is_kept(void **state) {
  (void)state;
  clave_program *p;
  linear l = build_linear(false);
  clave_builder_op(l.b, "Blur", "");
  assert_non_null(strstr(clave_builder_error(l.b), "no op 'Blur'"));
  clave_builder_op(l.b, "Sharpen", "");
  assert_int_equal(clave_builder_value(l.b, "v", CLAVE_I64, 0, 1), 0);
  assert_non_null(strstr(clave_builder_error(l.b), "no op 'Blur'"));
  expect_error(clave_builder_finish(l.b, &p), "no op 'Blur'");
  expect_error(clave_builder_finish(l.b, &p), "the builder is used up");
  assert_int_equal(clave_builder_value(l.b, "v", CLAVE_I64, 0, 1), 0);
  clave_builder_destroy(l.b);
  clave_builder_destroy(NULL);
  clave_builder_op(NULL, "Copy", "");
  assert_null(clave_builder_error(NULL));
  expect_error(clave_builder_finish(NULL, &p), "no builder");
}

static void test_before_the_first_method(void **state) {
  (void)state;
  clave_program *p;
  for (int i = 0; i < 5; i++) {
    clave_builder *b;
    good(clave_builder_create(&b));
    if (i == 0) clave_builder_op(b, "Copy", "c");
    if (i == 1) clave_builder_input(b, "x", 0);
    if (i == 2) (void)clave_builder_body(b, "b", NULL, 0);
    if (i == 3) clave_builder_set_int(b, "axis", 0);
    static const char *const said[] = {"no method is begun", "no method is begun",
                                       "no method is begun", "field 'axis' of no op",
                                       "the program has no methods"};
    expect_error(clave_builder_finish(b, &p), said[i]);
    clave_builder_destroy(b);
  }
}

/* ---------------------------------------------------------------- any calls at all */

typedef struct monkey {
  clave_builder *b;
  uint64_t seed;
  clave_id ids[64];
  const ir_table *table;
} monkey;

static uint32_t pick(monkey *m, uint32_t n) {
  m->seed = m->seed * 6364136223846793005u + 1442695040888963407u;
  return (uint32_t)(m->seed >> 33) % n;
}

static clave_id any_id(monkey *m) { return m->ids[pick(m, 64)]; }

static void call_declaring(monkey *m, uint32_t which) {
  const int64_t dims[] = {pick(m, 3), 1, 2};
  const clave_id values[] = {0, pick(m, 3) ? 0 : any_id(m), 0};
  static float data[64];
  const int64_t shape[] = {2, 2};
  clave_tensor t = clave_tensor_make((clave_dtype)pick(m, 10), 2, shape, data);
  clave_id *to = &m->ids[pick(m, 64)];
  if (which == 0)
    *to = clave_builder_tensor(m->b, (clave_slot_kind)pick(m, 5), "t", (clave_dtype)pick(m, 10),
                               (int)pick(m, 4), dims, values);
  if (which == 1) *to = clave_builder_value(m->b, "v", CLAVE_I64, 0, pick(m, 5));
  if (which == 2) *to = clave_builder_constant(m->b, "c", &t, pick(m, 2));
  if (which == 3) *to = clave_builder_body(m->b, "b", m->ids, pick(m, 2));
}

static void call_structure(monkey *m, uint32_t which) {
  if (which == 0) clave_builder_method(m->b, pick(m, 2) ? "one" : "two");
  if (which == 1) clave_builder_input(m->b, "i", any_id(m));
  if (which == 2) clave_builder_output(m->b, "o", any_id(m));
  if (which == 3) clave_builder_update(m->b, any_id(m), any_id(m));
  if (which == 4) clave_builder_initial(m->b, any_id(m), any_id(m));
  if (which == 5) clave_builder_end_body(m->b, m->ids, pick(m, 2));
  if (which < 6) return;
  ir_op op = (ir_op)(1 + pick(m, IR_OP_COUNT - 1));
  m->table = op_table[op].table;
  clave_builder_op(m->b, op_table[op].name, "n");
}

static void call_setter(monkey *m, uint32_t which) {
  static const char *const texts[] = {"max", "add", "", NULL};
  const int64_t sizes[] = {1, 0};
  const clave_id values[] = {0, any_id(m)};
  const int32_t ints[] = {0, -1};
  const clave_operand operands[] = {
      {.source = (clave_operand_source)pick(m, 6), .index = pick(m, 3), .value = any_id(m)}};
  const char *f = m->table ? m->table->fields[pick(m, m->table->n_fields)].name : "x";
  if (which == 0 || which > 9) clave_builder_set_tensor(m->b, f, any_id(m));
  if (which == 1) clave_builder_set_tensors(m->b, f, m->ids, pick(m, 4));
  if (which == 2) clave_builder_set_value(m->b, f, any_id(m));
  if (which == 3) clave_builder_set_int(m->b, f, (int64_t)pick(m, 5) - 1);
  if (which == 4) clave_builder_set_float(m->b, f, 0.5);
  if (which == 5) clave_builder_set_text(m->b, f, texts[pick(m, 4)]);
  if (which == 6) clave_builder_set_ints(m->b, f, ints, pick(m, 3));
  if (which == 7) clave_builder_set_sizes(m->b, f, sizes, values, pick(m, 3));
  if (which == 8) clave_builder_set_body(m->b, f, any_id(m));
  if (which == 9) clave_builder_step(m->b, texts[pick(m, 4)], CLAVE_F32, operands, pick(m, 2));
}

/* Forgets the error that ended the last calls, by going on with another builder. */
static void test_any_calls(void **state) {
  (void)state;
  int errors = 0;
  for (uint64_t seed = 0; seed < 20000; seed++) {
    monkey m = {.seed = seed};
    clave_program *p;
    good(clave_builder_create(&m.b));
    clave_builder_method(m.b, "forward");
    for (int i = 0, n = (int)pick(&m, 60); i < n; i++) {
      uint32_t kind = pick(&m, 4);
      if (kind == 0 || i < 8) call_declaring(&m, pick(&m, 4));
      if (kind == 1) call_structure(&m, pick(&m, 12));
      if (kind > 1) call_setter(&m, pick(&m, 14));
    }
    clave_status st = clave_builder_finish(m.b, &p);
    assert_int_equal(st != NULL, p == NULL);
    errors += st != NULL;
    clave_status_free(st);
    clave_program_destroy(p);
    clave_builder_destroy(m.b);
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
