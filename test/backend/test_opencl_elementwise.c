/* Compares elementwise lists, copies, Arange, Full and Matmul on an OpenCL device with the CPU
 * backend, and each matrix product by every implementation that accepts it. Environment as in
 * test_opencl_families.c. */
#include "backend/opencl/launch/stream.h"
#include "backend/opencl/ops/gemm/gemm.h"
#include "backend/pair.h"

#define TIDS(...)                                                 \
  {                                                               \
    .items = (uint32_t[]){__VA_ARGS__},                           \
    .count = sizeof((uint32_t[]){__VA_ARGS__}) / sizeof(uint32_t) \
  }
#define STEPS(...) \
  { .items = (ir_step[]){__VA_ARGS__}, .count = sizeof((ir_step[]){__VA_ARGS__}) / sizeof(ir_step) }
#define STEP(k, type, ...)                                              \
  {                                                                     \
    .kind = IR_STEP_KIND_##k, .dtype = DTYPE_##type, .operands = {      \
      .items = (ir_operand[]){__VA_ARGS__},                             \
      .count = sizeof((ir_operand[]){__VA_ARGS__}) / sizeof(ir_operand) \
    }                                                                   \
  }
#define IN(n) \
  { .source = IR_OPERAND_SOURCE_INPUT, .index = n }
#define AT(n) \
  { .source = IR_OPERAND_SOURCE_STEP, .index = n }
#define FLOAT(v) \
  { .source = IR_OPERAND_SOURCE_FLOAT, .f = v }
#define INT(v) \
  { .source = IR_OPERAND_SOURCE_INT, .i = v }
#define NUMBER(v) \
  { .literal = v, .vid = IR_NONE, .present = true }

static bool has_double(const pair_case *pair_case, char letter) {
  return strchr(pair_case->tensors, 'd') || (letter == 'd' && strchr(pair_case->tensors, 'T'));
}
static bool device_accepts(const pair_case *pair_case, char letter) {
  return ((cl_device *)pair.device)->entry->traits.has_fp64 || !has_double(pair_case, letter);
}

static int run_all(const pair_case *cases, size_t n) {
  int failures = 0;
  for (size_t i = 0; i < n; i++)
    for (const char *t = cases[i].types; *t; t++)
      if (device_accepts(&cases[i], *t))
        failures += pair_test(pair.cpu, pair.device, &cases[i], *t);
  return failures;
}
#define RUN(cases) assert_int_equal(run_all(cases, sizeof cases / sizeof *cases), 0)

/* ---------------------------------------------------------------- elementwise */

#define LIST(name, tensors, out_tid, in, ...)                                                  \
  {                                                                                            \
    name, IR_OP_ELEMENTWISE,                                                                   \
        &(ir_elementwise){.inputs = in, .steps = STEPS(__VA_ARGS__), .out = out_tid}, tensors, \
        "f", 8                                                                                 \
  }
#define ADD(tensors) LIST("add " tensors, tensors, 2, TIDS(0, 1), STEP(ADD, F32, IN(0), IN(1)))

static const pair_case walks[] = {
    ADD("f(1000);f(1000);>f(1000)"),
    ADD("f(3,5);f(3,5);>f(3,5)"),
    ADD("f();f();>f()"),
    ADD("f(7,65);f(65);>f(7,65)"),
    ADD("f(7,65)^;f(7,1);>f(7,65)"),
    ADD("f(6,4,30)_+;f(4,30)-;>f(6,4,30)"),
    ADD("f(300,3)^;f(3);>f(300,3)"),
    ADD("f(2,3,2,3,2,3,2,5)^;f(3,1,3,1,3,1,5)_;>f(2,3,2,3,2,3,2,5)"),
    ADD("f(100)-;f(1);>f(100)+"),
    ADD("f(1,70);f(33,1);>f(33,70)"),
    LIST("long chain", "f(50,33)n;>f(50,33)", 1, TIDS(0), STEP(MUL, F32, IN(0), FLOAT(0.1)),
         STEP(EXP, F32, AT(0)), STEP(SUB, F32, AT(1), FLOAT(1.5)), STEP(GELU, F32, AT(2)),
         STEP(CLAMP, F32, AT(3), FLOAT(-0.1), FLOAT(2)), STEP(ERF, F32, AT(4)),
         STEP(ADD, F32, AT(5), IN(0))),
    LIST("half chain", "h(1000)n;b(1000);>b(1000)", 2, TIDS(0, 1),
         STEP(MUL, F16, IN(0), FLOAT(0.1)), STEP(SILU, F16, AT(0)), STEP(CAST, BF16, AT(1)),
         STEP(ADD, BF16, AT(2), IN(1)), STEP(ATAN2, BF16, AT(3), IN(1))),
    LIST("where", "f(40)n;o(40);>f(40)", 2, TIDS(0, 1),
         STEP(WHERE, F32, IN(1), IN(0), FLOAT(-INFINITY))),
    LIST("compare", "f(40)n;>o(40)", 1, TIDS(0), STEP(GT, BOOL, IN(0), FLOAT(0.25)),
         STEP(ISNAN, BOOL, IN(0)), STEP(LOGICAL_OR, BOOL, AT(0), AT(1))),
    LIST("int64 exactly", "l(40)~1000;>l(40)", 1, TIDS(0), STEP(ADD, I64, IN(0), INT(INT64_MIN)),
         STEP(BITWISE_XOR, I64, AT(0), INT(0x7eadbeefcafef00d)),
         STEP(MUL, I64, AT(1), INT(9007199254740993))),
    LIST("int8 wraps", "c(200)~100;>c(200)", 1, TIDS(0), STEP(MUL, I8, IN(0), INT(3)),
         STEP(ADD, I8, AT(0), IN(0)), STEP(SHIFT_RIGHT, I8, AT(1), INT(1))),
    LIST("uint8 wraps", "u(200)<200;>u(200)", 1, TIDS(0), STEP(MUL, U8, IN(0), INT(3)),
         STEP(SHIFT_RIGHT, U8, AT(0), INT(1))),
    LIST("divide", "i(300)~50;i(300)~50;>i(300)", 2, TIDS(0, 1), STEP(MAXIMUM, I32, IN(1), INT(1)),
         STEP(FLOOR_DIVIDE, I32, IN(0), AT(0)), STEP(REMAINDER, I32, IN(0), AT(0)),
         STEP(ADD, I32, AT(1), AT(2))),
    LIST("divide by zero", "i(300)<9;i(300)z;>i(300)", 2, TIDS(0, 1),
         STEP(FLOOR_DIVIDE, I32, IN(0), IN(1))),
    LIST("no inputs", ">f(30)", 0, {0}, STEP(ADD, F32, FLOAT(1), FLOAT(0.5))),
    LIST("special immediates", "f(3)z;>f(3)", 1, TIDS(0), STEP(ADD, F32, IN(0), FLOAT(INFINITY)),
         STEP(MAXIMUM, F32, AT(0), FLOAT(NAN)), STEP(COPY, F32, AT(1))),
    LIST("many immediates", "f(64);>f(64)", 1, TIDS(0),
         STEP(CLAMP, F32, IN(0), FLOAT(-9.1), FLOAT(9.1)),
         STEP(CLAMP, F32, AT(0), FLOAT(-8.1), FLOAT(8.1)),
         STEP(CLAMP, F32, AT(1), FLOAT(-7.1), FLOAT(7.1)),
         STEP(CLAMP, F32, AT(2), FLOAT(-6.1), FLOAT(6.1)),
         STEP(CLAMP, F32, AT(3), FLOAT(-5.1), FLOAT(5.1)),
         STEP(CLAMP, F32, AT(4), FLOAT(-4.1), FLOAT(4.1)),
         STEP(CLAMP, F32, AT(5), FLOAT(-3.1), FLOAT(3.1)),
         STEP(CLAMP, F32, AT(6), FLOAT(-2.1), FLOAT(2.1)),
         STEP(CLAMP, F32, AT(7), FLOAT(-1.9), FLOAT(1.9)),
         STEP(CLAMP, F32, AT(8), FLOAT(-1.8), FLOAT(1.8)),
         STEP(CLAMP, F32, AT(9), FLOAT(-1.7), FLOAT(1.7)),
         STEP(CLAMP, F32, AT(10), FLOAT(-1.6), FLOAT(1.6)),
         STEP(CLAMP, F32, AT(11), FLOAT(-1.5), FLOAT(1.5)), STEP(ADD, F32, AT(12), FLOAT(0.1))),
    LIST("double", "d(100);>d(100)", 1, TIDS(0), STEP(MUL, F64, IN(0), FLOAT(0.1)),
         STEP(ERF, F64, AT(0)), STEP(ADD, F64, AT(1), FLOAT(1e-17))),
    LIST("eight inputs", "f(5,40);f(40);f(5,1);f(5,40)^;f(5,40)-;f();f(1,40);f(5,40)_;>f(5,40)", 8,
         TIDS(0, 1, 2, 3, 4, 5, 6, 7), STEP(ADD, F32, IN(0), IN(1)), STEP(ADD, F32, AT(0), IN(2)),
         STEP(ADD, F32, AT(1), IN(3)), STEP(ADD, F32, AT(2), IN(4)), STEP(ADD, F32, AT(3), IN(5)),
         STEP(ADD, F32, AT(4), IN(6)), STEP(ADD, F32, AT(5), IN(7))),
};
static void test_elementwise(void **state) {
  (void)state;
  RUN(walks);
}

/* Casts every dtype to every other. Floats are in the range of the integer dtype. */
static void test_casts(void **state) {
  (void)state;
  int failures = 0;
  for (int from = 0; from < DTYPE_COUNT; from++)
    for (int to = 0; to < DTYPE_COUNT; to++) {
      char tensors[64], name[64];
      snprintf(tensors, sizeof tensors, "%c(77)%s;>%c(77)", pair_letters[from],
               to == DTYPE_U8 ? "<90" : "~90", pair_letters[to]);
      snprintf(name, sizeof name, "cast %s to %s", dtype_name((dtype)from), dtype_name((dtype)to));
      ir_operand x = IN(0);
      ir_step step = {.kind = IR_STEP_KIND_CAST, .dtype = (dtype)to, .operands = {&x, 1}};
      ir_elementwise op = {.inputs = TIDS(0), .steps = {&step, 1}, .out = 1};
      pair_case pair_case = {name, IR_OP_ELEMENTWISE, &op, tensors, "f", 1};
      if (device_accepts(&pair_case, 'f'))
        failures += pair_test(pair.cpu, pair.device, &pair_case, 'f');
    }
  assert_int_equal(failures, 0);
}

/* A host scalar changes between two runs of one kernel. */
static void test_values(void **state) {
  (void)state;
  ir_operand operands[2] = {IN(0), {.source = IR_OPERAND_SOURCE_VALUE, .index = 0}};
  ir_step step = {.kind = IR_STEP_KIND_ADD, .dtype = DTYPE_F32, .operands = {operands, 2}};
  ir_elementwise op = {.inputs = TIDS(0), .steps = {&step, 1}, .out = 1};
  ir_instruction instruction = {.op_type = IR_OP_ELEMENTWISE, .op = &op, .name = "values"};
  const backend_vtable *vt = pair.device->vt;
  stream *stream;
  bound_tensor tensor[2] = {{.tensor = {.rank = 1, .dims = {2}, .strides = {1}}},
                            {.tensor = {.rank = 1, .dims = {2}, .strides = {1}}, .slot = 1}};
  pair_check(vt->stream_create(pair.device, &stream), "stream");
  for (int i = 0; i < 2; i++)
    pair_check(vt->buffer_create(pair.device, 8, &tensor[i].buf), "buffer");
  pair_check(vt->write(stream, tensor[0].buf, 0, (float[]){1, 2}, 8), "write");
  for (int i = 0; i < 4; i++) {
    scalar_value value = {.known = true,
                          .type = i % 2 ? IR_VALUE_TYPE_INT : IR_VALUE_TYPE_FLOAT,
                          .i = i,
                          .f = i + 0.5};
    const node node = {.instruction = &instruction, .tensors = tensor, .values = &value};
    float out[2];
    pair_check(run_once(pair.device, stream, &node, 0), "run");
    pair_check(vt->read(stream, tensor[1].buf, 0, out, 8), "read");
    double want = i % 2 ? 2 + i : 2.5 + i;
    assert_true(out[1] == want);
  }
  vt->stream_destroy(pair.device, stream);
  for (int i = 0; i < 2; i++) vt->buffer_destroy(pair.device, tensor[i].buf);
}

/* ---------------------------------------------------------------- copies, numbers */

#define COPY(tensors) \
  { "copy " tensors, IR_OP_COPY, &(ir_copy){.x = 0, .out = 1}, tensors, "fhdcol", 0 }
static const pair_case copies[] = {
    COPY("T(5);>T(5)"),
    COPY("T();>T()"),
    COPY("T(70,33)^n;>T(70,33)"),
    COPY("T(33,70)^+;>T(33,70)"),
    COPY("T(5,33,70)^;>T(5,33,70)+"),
    COPY("T(16,4,16)^;>T(16,4,16)"),
    COPY("T(9,40)_;>T(9,40)"),
    COPY("T(9,40)-;>T(9,40)"),
    COPY("T(9,40)=;>T(9,40)"),
    COPY("T(40,3)_;>T(40,3)"),
    COPY("T(2,3,4,5,2,3,2,3)^;>T(2,3,4,5,2,3,2,3)"),
};
static const pair_case numbers[] = {
    {"arange int", IR_OP_ARANGE, &(ir_arange){.start = NUMBER(-7), .step = NUMBER(3), .out = 0},
     ">T(30)", "ilsc", 0},
    {"arange large", IR_OP_ARANGE,
     &(ir_arange){.start = NUMBER(INT64_MAX - 100), .step = NUMBER(2), .out = 0}, ">l(30)", "f", 0},
    {"arange float", IR_OP_ARANGE,
     &(ir_arange){.start_float = NUMBER(0.5), .step_float = NUMBER(0.25), .out = 0}, ">T(300)",
     "fhbd", 1},
    {"full float", IR_OP_FULL, &(ir_full){.value = NUMBER(-0.1), .out = 0}, ">T(3,30)+", "fhbd", 0},
    {"full infinite", IR_OP_FULL, &(ir_full){.value = NUMBER(-INFINITY), .out = 0}, ">T(3,30)+",
     "fhbd", 0},
    {"full above the middle", IR_OP_FULL,
     &(ir_full){.value = NUMBER(1 + 0x1p-11 + 0x1p-30), .out = 0}, ">T(30)", "fhd", 0},
    {"full int", IR_OP_FULL, &(ir_full){.int_value = NUMBER(-100), .out = 0}, ">T(30)", "ilsc", 0},
    {"full bool", IR_OP_FULL, &(ir_full){.int_value = NUMBER(1), .out = 0}, ">T(30)", "o", 0},
    {"full exactly", IR_OP_FULL, &(ir_full){.int_value = NUMBER(INT64_MIN + 1), .out = 0}, ">l(30)",
     "f", 0},
};
static void test_copies(void **state) {
  (void)state;
  RUN(copies);
}
static void test_numbers(void **state) {
  (void)state;
  RUN(numbers);
}

/* ---------------------------------------------------------------- matrix products */

#define SCALED(tensors, types, bias_tid, alpha_, beta_)                                           \
  {                                                                                               \
    "matmul " tensors, IR_OP_MATMUL,                                                              \
        &(ir_matmul){.a = 0, .b = 1, .bias = bias_tid, .out = 2, .alpha = alpha_, .beta = beta_}, \
        tensors, types, 300                                                                       \
  }
#define MATMUL(tensors, types) SCALED(tensors, types, IR_NONE, 1, 1)
#define BIASED(tensors, types) SCALED(tensors, types, 3, 1, 1)
#define FLOATS "fhb"
static const pair_case products[] = {
    MATMUL("T(1,1);T(1,1);>T(1,1)", FLOATS),
    MATMUL("T(1,100);T(100,70)^;>T(1,70)", FLOATS),
    BIASED("T(1,100);T(100,70)^;>T(1,70);T(70)", FLOATS),
    SCALED("T(3,37);T(37,33)^;>T(3,33);T(33)", FLOATS, 3, 0.5, 2),
    MATMUL("T(8,700);T(700,21)^;>T(8,21)", FLOATS),
    MATMUL("T(5,2500);T(2500,9)^;>T(5,9)", FLOATS),
    MATMUL("T(1,37);T(37,100);>T(1,100)", FLOATS),
    BIASED("T(7,37);T(37,131);>T(7,131);T(7,1)", FLOATS),
    MATMUL("T(4,600)^;T(600,64);>T(4,64)", FLOATS),
    BIASED("T(9,5);T(5,40);>T(9,40);T(40)", FLOATS),
    SCALED("T(65,300);T(300,150);>T(65,150);T(65,150)", FLOATS, 3, -1, 0.25),
    MATMUL("T(65,300);T(300,150)^;>T(65,150)", FLOATS),
    MATMUL("T(65,300)^;T(300,150)_;>T(65,150)", FLOATS),
    MATMUL("T(20,30)-;T(30,20)-;>T(20,20)", FLOATS),
    BIASED("T(70,30)+;T(30,1);>T(70,1);T(70,1)", FLOATS),
    BIASED("T(4,11,30);T(30,33);>T(4,11,33);T(33)", FLOATS),
    MATMUL("T(2,1,11,30);T(3,30,33);>T(2,3,11,33)", FLOATS),
    BIASED("T(3,11,30)^;T(3,30,70)^;>T(3,11,70);T(3,1,70)", FLOATS),
    MATMUL("T(3,1,30);T(3,30,70)^;>T(3,1,70)", FLOATS),
    MATMUL("T(3,40,1);T(3,1,40);>T(3,40,40)", FLOATS),
    BIASED("T(3,0);T(0,4);>T(3,4);T(4)", FLOATS),
    SCALED("T(9,13);T(13,17)^;>T(9,17);T(17)", "dilcsu", 3, 2, 3),
    MATMUL("T(2,9,13)^;T(13,17);>T(2,9,17)", "dil"),
};
static void test_matmul(void **state) {
  (void)state;
  RUN(products);
}

typedef struct implementation {
  const char *name;
  clave_status (*run)(const void *);
  bool (*accepts)(const gemm *);
} implementation;
static bool accepts_all(const gemm *gemm) { return gemm->desc.k > 0; }
static bool accepts_few_rows(const gemm *gemm) {
  return gemm->desc.m <= 8 && gemm->desc.b_k == 1 && gemm->desc.a_k == 1;
}
static bool accepts_few_columns(const gemm *gemm) {
  return gemm->desc.m <= 8 && gemm->desc.b_n == 1;
}
static const implementation implementations[] = {
    {"tile", gemm_tile, accepts_all},
    {"packed", gemm_packed, gemm_packed_usable},
    {"rows", gemm_rows, accepts_few_rows},
    {"columns", gemm_columns, accepts_few_columns},
    {"clblast", gemm_clblast, gemm_clblast_usable},
};

static double reference(const pair_node *node, const gemm *gemm, int64_t m, int64_t n) {
  const pair_slot *a = &node->slots[0], *b = &node->slots[1];
  double sum = 0;
  for (int64_t k = 0; k < gemm->desc.k; k++)
    sum += pair_load(a->bound.tensor.type, a->data,
                     a->bound.tensor.offset + m * gemm->desc.a_m + k * gemm->desc.a_k) *
           pair_load(b->bound.tensor.type, b->data,
                     b->bound.tensor.offset + k * gemm->desc.b_k + n * gemm->desc.b_n);
  sum *= gemm->desc.alpha;
  if (gemm->desc.bias)
    sum += gemm->desc.beta * pair_load(gemm->desc.bias->tensor.type, node->slots[3].data,
                                       gemm->desc.bias->tensor.offset + m * gemm->desc.bias_m +
                                           n * gemm->desc.bias_n);
  return sum;
}

static double nearest(dtype t, double v) {
  double stored;
  pair_store(t, &stored, 0, v);
  return pair_load(t, &stored, 0);
}

/* Records the product with one implementation and runs it. */
static void run_product(const implementation *implementation, const gemm *described,
                        stream *stream) {
  cl_recording *made = calloc(1, sizeof *made);
  cl_recorder recorder = {.device = (cl_device *)pair.device, .out = made};
  recorded recorded = {.b = pair.device, .s = stream, .r = &made->base};
  node node = *described->node;
  gemm gemm = *described;
  node.cache = &recorded.cache;
  gemm.recorder = &recorder;
  gemm.node = &node;
  pair_check(implementation->run(&gemm), implementation->name);
  if (made->base.scratch_bytes)
    pair_check(
        pair.device->vt->buffer_create(pair.device, made->base.scratch_bytes, &recorded.scratch),
        implementation->name);
  pair_check(run_recorded(&recorded, node.tensors, 0), implementation->name);
  free_recorded(&recorded);
}

static int check_product(const implementation *implementation, const gemm *gemm, stream *stream,
                         const pair_node *node) {
  dtype type = gemm->desc.out->tensor.type;
  size_t bytes = (size_t)(gemm->desc.m * gemm->desc.n) * dtype_size(type);
  char *got = malloc(bytes);
  pair_check(pair.device->vt->write(stream, gemm->desc.out->buf, 0, node->slots[2].data,
                                    node->slots[2].bytes),
             "write");
  run_product(implementation, gemm, stream);
  pair_check(pair.device->vt->read(stream, gemm->desc.out->buf, 0, got, bytes), "read");
  size_t n = (size_t)(gemm->desc.m * gemm->desc.n);
  double *is = pair_values(type, got, n), *want = pair_values(type, got, n);
  for (size_t e = 0; e < n; e++)
    want[e] =
        nearest(type, reference(node, gemm, (int64_t)e / gemm->desc.n, (int64_t)e % gemm->desc.n));
  int wrong = pair_compare_floats(implementation->name, type, products[0].tolerance, want, is, n);
  free(is);
  free(want);
  free(got);
  return wrong;
}

/* Runs each product of one batch by every implementation that accepts it. */
static int check_implementations(const pair_case *pair_case, char letter) {
  pair_node pair_node;
  stream *stream;
  int failures = 0;
  bound_tensor bound[PAIR_MAX_SLOTS];
  pair_read(pair_case, letter, &pair_node);
  ir_instruction instruction = {
      .op_type = pair_case->op, .op = (void *)pair_case->fields, .name = pair_case->name};
  pair_check(pair.device->vt->stream_create(pair.device, &stream), pair_case->name);
  for (int i = 0; i < pair_node.n_slots; i++) {
    bound[i] = pair_node.slots[i].bound;
    bound[i].slot = (uint32_t)i;
    pair_check(pair.device->vt->buffer_create(pair.device, pair_node.slots[i].bytes, &bound[i].buf),
               pair_case->name);
    pair_check(pair.device->vt->write(stream, bound[i].buf, 0, pair_node.slots[i].data,
                                      pair_node.slots[i].bytes),
               pair_case->name);
  }
  const node node = {.instruction = &instruction, .tensors = bound};
  cl_recorder recorder = {.device = (cl_device *)pair.device};
  gemm gemm = {.recorder = &recorder, .node = &node};
  describe_matmul(&node, &gemm.desc);
  bool turned = gemm.desc.a != &bound[0]; /* b is a column, which reference() does not support */
  for (size_t i = 0; i < sizeof implementations / sizeof *implementations; i++)
    if (!turned && gemm.desc.batches == 1 && implementations[i].accepts(&gemm))
      failures += check_product(&implementations[i], &gemm, stream, &pair_node);
  if (failures) print_error("%s (%c)\n", pair_case->name, letter);
  pair.device->vt->stream_destroy(pair.device, stream);
  for (int i = 0; i < pair_node.n_slots; i++)
    pair.device->vt->buffer_destroy(pair.device, bound[i].buf);
  pair_free(&pair_node);
  return failures;
}

static void test_implementations(void **state) {
  (void)state;
  int failures = 0;
  for (size_t i = 0; i < sizeof products / sizeof *products; i++)
    if (products[i].types[0] == 'f')
      failures += check_implementations(&products[i], "fhb"[i % 3]) +
                  check_implementations(&products[i], 'f');
  assert_int_equal(failures, 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_elementwise),     cmocka_unit_test(test_casts),
      cmocka_unit_test(test_values),          cmocka_unit_test(test_copies),
      cmocka_unit_test(test_numbers),         cmocka_unit_test(test_matmul),
      cmocka_unit_test(test_implementations),
  };
  if (!pair_open()) return 0;
  int failed = cmocka_run_group_tests(tests, NULL, NULL);
  pair_close();
  return failed;
}
