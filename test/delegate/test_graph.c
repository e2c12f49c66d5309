/* Tests a host's own graph, queried and passed as a payload, and malformed descriptions. */
#include "test/delegate/mnist.h"

/* ---------------------------------------------------------------- graphs */

enum { ROWS, IN = 3, OUT = 2 };

/* relu(x @ w + b) of (n, 3), n from 1 to 9; then a softmax. */
typedef struct sample {
  float w[IN * OUT], b[OUT];
  clave_delegate_size sizes[1];
  clave_delegate_tensor tensors[6];
  clave_delegate_field product[4], relu[3], softmax[3];
  clave_delegate_node nodes[3];
  clave_delegate_graph g;
} sample;

static const uint32_t index_of[] = {0, 1, 2, 3, 4, 5, 6};
static const clave_delegate_operand first[] = {{.source = CLAVE_DELEGATE_OPERAND_INPUT}};

#define READS(field, i) \
  { .name = field, .kind = CLAVE_DELEGATE_READS, .n = 1, .tensors = &index_of[i] }
#define WRITES(field, i) \
  { .name = field, .kind = CLAVE_DELEGATE_WRITES, .n = 1, .tensors = &index_of[i] }

static void init_sample(sample *model) {
  *model = (sample){.w = {1, -2, 0.5f, 3, 1, -1},
                    .b = {0.25f, -4},
                    .sizes = {{"n", 1, 9}},
                    .tensors = {{"x", CLAVE_SLOT_INPUT, CLAVE_F32, 2, {0, IN}, {1}, NULL},
                                {"w", CLAVE_SLOT_CONSTANT, CLAVE_F32, 2, {IN, OUT}, {0}, model->w},
                                {"b", CLAVE_SLOT_CONSTANT, CLAVE_F32, 1, {OUT}, {0}, model->b},
                                {"z", CLAVE_SLOT_TEMPORARY, CLAVE_F32, 2, {0, OUT}, {1}, NULL},
                                {"r", CLAVE_SLOT_TEMPORARY, CLAVE_F32, 2, {0, OUT}, {1}, NULL},
                                {"y", CLAVE_SLOT_OUTPUT, CLAVE_F32, 2, {0, OUT}, {1}, NULL}},
                    .product = {READS("a", 0), READS("b", 1), READS("bias", 2), WRITES("out", 3)},
                    .relu = {{.name = "inputs",
                              .kind = CLAVE_DELEGATE_READS_LIST,
                              .n = 1,
                              .tensors = &index_of[3]},
                             {.name = "relu",
                              .kind = CLAVE_DELEGATE_STEP,
                              .dtype = CLAVE_F32,
                              .n = 1,
                              .operands = first},
                             WRITES("out", 4)},
                    .softmax = {READS("x", 4),
                                {.name = "axis", .kind = CLAVE_DELEGATE_INT, .i = -1},
                                WRITES("out", 5)},
                    .nodes = {{"Matmul", "dense", model->product, 4},
                              {"elementwise", "activation", model->relu, 3},
                              {"Softmax", "scores", model->softmax, 3}}};
  model->g = (clave_delegate_graph){.size = sizeof model->g,
                                    .sizes = model->sizes,
                                    .n_sizes = 1,
                                    .tensors = model->tensors,
                                    .n_tensors = 6,
                                    .nodes = model->nodes,
                                    .n_nodes = 3};
}

/* Compares the results with sums by hand. */
static void test_graph(void **state) {
  (void)state;
  for (int copy = 0; copy < 2; copy++) {
    sample *sample = malloc(sizeof *sample);
    init_sample(sample);
    clave_delegate_handle p;
    const clave_delegate_payload payload = {
        .size = sizeof payload, .format = CLAVE_DELEGATE_GRAPH, .graph = &sample->g, .copy = copy};
    fine(d.load(&payload, &p));
    if (copy) memset(sample, 0xAA, sizeof *sample);
    clave_delegate_handle in = create(p);
    clave_tensor_info info = {.size = sizeof info};
    fine(d.input(p, NULL, 0, &info));
    assert_string_equal(info.name, "x");
    assert_int_equal(info.dims[0], CLAVE_DYNAMIC);
    assert_int_equal(info.max_dims[0], 9);
    static float x[] = {1, 2, 3, -1, -3, 4};
    const clave_tensor value = clave_tensor_make(CLAVE_F32, 2, (int64_t[]){2, IN}, x);
    clave_tensor tensor;
    fine(d.set_input(in, NULL, 0, &value));
    fine(d.execute(in, NULL));
    fine(d.result(in, NULL, 0, &tensor));
    const float *got = tensor.data; /* rows are (5.25, -3), (1.75, -15) before relu */
    const float want[] = {0.994780f, 0.005220f, 0.851953f, 0.148047f};
    for (int i = 0; i < 4; i++) assert_float_equal(got[i], want[i], 1e-5);
    fine(d.destroy(in));
    fine(d.unload(p));
    free(sample);
  }
}

/* y = sum + x, and y is the next value of sum: a host's graph with state. */
typedef struct counter {
  float first[2];
  const void *initial[3];
  clave_delegate_tensor tensors[3];
  clave_delegate_field add[3];
  clave_delegate_node node;
  clave_delegate_update update;
  clave_delegate_graph g;
} counter;

static void init_counter(counter *counts) {
  static const uint32_t both[] = {0, 1};
  static const clave_delegate_operand two[] = {{.source = CLAVE_DELEGATE_OPERAND_INPUT},
                                               {.source = CLAVE_DELEGATE_OPERAND_INPUT, .i = 1}};
  *counts = (counter){
      .first = {10, -5},
      .tensors = {{"sum", CLAVE_SLOT_STATE, CLAVE_F32, 1, {2}, {0}, NULL},
                  {"x", CLAVE_SLOT_INPUT, CLAVE_F32, 1, {2}, {0}, NULL},
                  {"y", CLAVE_SLOT_OUTPUT, CLAVE_F32, 1, {2}, {0}, NULL}},
      .add = {{.name = "inputs", .kind = CLAVE_DELEGATE_READS_LIST, .n = 2, .tensors = both},
              {.name = "add",
               .kind = CLAVE_DELEGATE_STEP,
               .dtype = CLAVE_F32,
               .n = 2,
               .operands = two},
              WRITES("out", 2)},
      .node = {"Elementwise", "add", counts->add, 3},
      .update = {0, 2}};
  counts->initial[0] = counts->first;
  counts->g = (clave_delegate_graph){.size = sizeof counts->g,
                                     .tensors = counts->tensors,
                                     .n_tensors = 3,
                                     .nodes = &counts->node,
                                     .n_nodes = 1,
                                     .initial = counts->initial,
                                     .updates = &counts->update,
                                     .n_updates = 1};
}

static void expect_sums(clave_delegate_handle in, float a, float b) {
  clave_tensor tensor;
  fine(d.execute(in, NULL));
  fine(d.result(in, NULL, 0, &tensor));
  assert_float_equal(((float *)tensor.data)[0], a, 0);
  assert_float_equal(((float *)tensor.data)[1], b, 0);
}

/* States begin with the host's initial values, also after a reset, and get the values of the
 * graph's updates. In graphs of the first release, which have neither, states stay zero. */
static void test_initial_state(void **state) {
  (void)state;
  for (int way = 0; way < 4; way++) {
    const bool copy = way == 1, old = way == 2, none = way == 3;
    counter *counter = malloc(sizeof *counter);
    init_counter(counter);
    clave_delegate_handle p;
    const clave_delegate_payload payload = {
        .size = sizeof payload, .format = CLAVE_DELEGATE_GRAPH, .graph = &counter->g, .copy = copy};
    if (old) counter->g.size = offsetof(clave_delegate_graph, initial);
    if (none) counter->initial[0] = NULL;
    fine(d.load(&payload, &p));
    if (copy) memset(counter, 0xAA, sizeof *counter);
    clave_delegate_handle in = create(p), other = create(p);
    static float x[] = {1, 2};
    const clave_tensor value = clave_tensor_make(CLAVE_F32, 1, (int64_t[]){2}, x);
    const float a = old || none ? 0 : 10, b = old || none ? 0 : -5, more = old ? 0 : 1;
    fine(d.set_input(in, NULL, 0, &value));
    fine(d.set_input(other, NULL, 0, &value));
    expect_sums(in, a + 1, b + 2);
    expect_sums(in, a + 1 + more, b + 2 + 2 * more);
    expect_sums(other, a + 1, b + 2);
    fine(d.reset(in));
    expect_sums(in, a + 1, b + 2);
    fine(d.destroy(in));
    fine(d.destroy(other));
    fine(d.unload(p));
    free(counter);
  }
}

static void test_bad_initial_state(void **state) {
  (void)state;
  static const clave_delegate_size sizes[] = {{"n", 1, 2}};
  counter counter;
  clave_delegate_handle p;
  clave_delegate_answer answer[1];
  const clave_delegate_payload payload = {
      .size = sizeof payload, .format = CLAVE_DELEGATE_GRAPH, .graph = &counter.g};
  init_counter(&counter);
  counter.initial[1] = counter.first;
  expect(d.load(&payload, &p), CLAVE_INVALID,
         "the tensor has an initial value but is not a state; tensor 1 of the graph");
  init_counter(&counter);
  counter.g.sizes = sizes;
  counter.g.n_sizes = 1;
  for (int i = 0; i < 3; i++) counter.tensors[i].sizes[0] = 1;
  expect(d.load(&payload, &p), CLAVE_INVALID,
         "the tensor has an initial value, but dimension 0 is open");
  init_counter(&counter);
  counter.update.tensor = 3;
  expect(d.load(&payload, &p), CLAVE_INVALID,
         "index 3 is out of range: expected less than 3; update 0 of the graph");
  init_counter(&counter);
  counter.update.state = 1;
  expect(d.load(&payload, &p), CLAVE_INVALID, "payload");
  init_counter(&counter);
  counter.tensors[0].dtype = CLAVE_I32;
  counter.initial[0] = NULL;
  expect(d.load(&payload, &p), CLAVE_INVALID, "payload");
  init_counter(&counter);
  counter.g.updates = NULL;
  expect(d.load(&payload, &p), CLAVE_INVALID, "updates: expected a list of 1 items, got NULL");
  init_counter(&counter);
  fine(d.query(device, &counter.g, answer));
  assert_true(answer[0].supported);
}

static void test_query(void **state) {
  (void)state;
  sample sample;
  clave_delegate_answer answer[3];
  init_sample(&sample);
  sample.tensors[1].data = sample.tensors[2].data = NULL; /* a question needs none */
  fine(d.query(device, &sample.g, answer));
  for (int i = 0; i < 3; i++) {
    assert_true(answer[i].supported);
    assert_string_equal(answer[i].where, "cpu");
    assert_string_equal(answer[i].reason, "");
  }
  sample.nodes[0].op = "Gemm"; /* no such op */
  sample.tensors[4].dtype = CLAVE_I32;
  sample.softmax[1].i = 2;
  fine(d.query(device, &sample.g, answer));
  for (int i = 0; i < 3; i++)
    assert_true(!answer[i].supported && strcmp(answer[i].where, "none") == 0);
  assert_non_null(strstr(answer[0].reason, "Gemm"));
  assert_non_null(strstr(answer[2].reason, "scores"));
}

/* Queries a program node by node, also invalidly. test_opencl.c tests ops that devices lack. */
static void test_query_of_a_program(void **state) {
  (void)state;
  size_t size;
  int released = 0;
  char *bytes = read_file(MNIST, &size);
  clave_delegate_handle p = load_clv(bytes, size, true, &released);
  clave_method_info info = {.size = sizeof info};
  fine(d.method(p, 0, &info));
  clave_delegate_answer *answer = calloc(info.n_nodes, sizeof *answer);
  fine(d.query_program(device, p, "forward", answer, info.n_nodes));
  for (uint32_t i = 0; i < info.n_nodes; i++) assert_true(answer[i].supported);
  assert_string_equal(answer[0].where, "cpu");
  expect(d.query_program(device, p, "forward", answer, info.n_nodes - 1), CLAVE_INVALID,
         "one per node of method");
  expect(d.query_program(device, p, "backward", answer, info.n_nodes), CLAVE_INVALID,
         "unknown method");
  expect(d.query_program(p, device, NULL, answer, info.n_nodes), CLAVE_INVALID,
         "expected a device");
  free(answer);
  fine(d.unload(p));
  free(bytes);
}

static void test_bad_graphs(void **state) {
  (void)state;
  static const uint32_t wild[] = {77};
  static const clave_delegate_operand no_source = {.source = 9}, no_step = {.source = 1, .i = -1},
                                      far_input = {.source = 0, .i = 1ll << 32};
  sample sample;
  clave_delegate_handle p;
  clave_delegate_answer answer[3];
  const clave_delegate_payload payload = {
      .size = sizeof payload, .format = CLAVE_DELEGATE_GRAPH, .graph = &sample.g};
#define REFUSED(change, words)                        \
  init_sample(&sample);                               \
  change;                                             \
  expect(d.load(&payload, &p), CLAVE_INVALID, words); \
  expect(d.query(device, &sample.g, answer), CLAVE_INVALID, words)
  REFUSED(sample.product[0].tensors = wild,
          "index 77 is out of range: expected less than 6; field 0 of op 'Matmul'; node 0");
  REFUSED(sample.product[0].tensors = NULL, "tensors: expected a list of");
  REFUSED(sample.product[0].n = 2, "expected 1 tensor, got 2");
  REFUSED(sample.product[0].kind = 99, "expected a clave_delegate_field_kind, got 99");
  REFUSED(sample.product[0].name = NULL, "name is NULL");
  REFUSED(sample.relu[1].operands = NULL, "operands: expected a list of");
  REFUSED(sample.relu[1].operands = &no_source,
          "operand 0: expected a clave_delegate_source, got 9");
  REFUSED(sample.relu[1].operands = &far_input,
          "operand 0: expected 0 to 4294967295, got input 4294967296");
  REFUSED(sample.relu[1].operands = &no_step, "operand 0: expected 0 to 4294967295, got step -1");
  REFUSED(sample.tensors[3].rank = 9, "expected rank 0 to 8, got 9; tensor 3");
  REFUSED(sample.tensors[3].dims[1] = -5, "dimension 1 is -5");
  REFUSED(sample.tensors[3].sizes[0] = 2,
          "dimension 0 refers to size 2, and the graph has 1 sizes");
  REFUSED(sample.tensors[3].dtype = 55, "dtype 55");
  REFUSED(sample.tensors[3].kind = 55, "expected a clave_slot_kind, got 55");
  REFUSED(sample.tensors[3].name = NULL, "name is NULL");
  REFUSED(sample.nodes[1].op = NULL, "op is NULL");
  REFUSED(sample.g.nodes = NULL, "nodes: expected a list of");
  REFUSED(sample.g.size = 4, "or more, got 4");
  init_sample(&sample);
  sample.tensors[1].data = NULL;
  expect(d.load(&payload, &p), CLAVE_INVALID, "constant 1 ('w') has no data");
  init_sample(&sample);
  sample.tensors[1].sizes[0] = 1;
  expect(d.load(&payload, &p), CLAVE_INVALID, "open dimension");
  init_sample(&sample);
  sample.g.n_nodes = 2; /* nobody writes y */
  clave_status st = d.load(&payload, &p);
  assert_int_equal(d.status_code(st), CLAVE_INVALID);
  d.status_free(st);
}

/* Computes z = x - y of two inputs in one memory, at these offsets, with the result over them. */
static void test_inputs_that_overlap(void **state) {
  (void)state;
  enum { COUNT = 16 };
  clave_delegate_tensor tensors[] = {{"x", CLAVE_SLOT_INPUT, CLAVE_F32, 1, {COUNT}, {0}, NULL},
                                     {"y", CLAVE_SLOT_INPUT, CLAVE_F32, 1, {COUNT}, {0}, NULL},
                                     {"z", CLAVE_SLOT_OUTPUT, CLAVE_F32, 1, {COUNT}, {0}, NULL}};
  static const clave_delegate_operand both[] = {{.i = 0}, {.i = 1}};
  const clave_delegate_field fields[] = {
      {.name = "inputs", .kind = CLAVE_DELEGATE_READS_LIST, .n = 2, .tensors = index_of},
      {.name = "sub", .kind = CLAVE_DELEGATE_STEP, .dtype = CLAVE_F32, .n = 2, .operands = both},
      WRITES("out", 2)};
  const clave_delegate_node node = {"Elementwise", "difference", fields, 3};
  const clave_delegate_graph graph = {
      .size = sizeof graph, .tensors = tensors, .n_tensors = 3, .nodes = &node, .n_nodes = 1};
  const clave_delegate_payload payload = {
      .size = sizeof payload, .format = CLAVE_DELEGATE_GRAPH, .graph = &graph};
  const clave_tensor shape = clave_tensor_make(CLAVE_F32, 1, (int64_t[]){COUNT}, NULL);
  static const size_t places[][3] = {{0, 0, 16}, {0, 0, 0}, {0, 4, 2}, {4, 0, 0}, {0, 15, 15}};
  clave_delegate_handle p, in;
  fine(d.load(&payload, &p));
  in = create(p);
  for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
    float memory[3 * COUNT], want[COUNT];
    for (int k = 0; k < 3 * COUNT; k++) memory[k] = (float)(k * k);
    for (size_t k = 0; k < COUNT; k++)
      want[k] = memory[places[i][0] + k] - memory[places[i][1] + k];
    for (uint32_t k = 0; k < 2; k++) {
      const clave_delegate_memory from = at(memory + places[i][k], COUNT * sizeof *memory);
      fine(d.bind_input(in, NULL, k, &shape, &from));
    }
    const clave_delegate_memory to = at(memory + places[i][2], COUNT * sizeof *memory);
    fine(d.bind_output(in, NULL, 0, &to));
    fine(d.execute(in, NULL));
    assert_memory_equal(memory + places[i][2], want, sizeof want);
  }
  fine(d.destroy(in));
  fine(d.unload(p));
}

/* ---------------------------------------------------------------- lists */

enum { MANY = 300 };
typedef struct negatives {
  uint32_t indices[2 * MANY];
  char names[2 * MANY][8];
  clave_delegate_size sizes[MANY];
  clave_delegate_tensor tensors[2 * MANY];
  clave_delegate_field fields[MANY][3];
  clave_delegate_node nodes[MANY];
  clave_delegate_graph g;
} negatives;

/* Initialises a graph of n inputs, each with its own dynamic size, and n negated outputs. */
static void init_negatives(negatives *negatives, uint32_t n) {
  for (uint32_t i = 0; i < 2 * n; i++) {
    negatives->indices[i] = i;
    (void)snprintf(negatives->names[i], sizeof negatives->names[i], "t%u", (unsigned)(i % 1000));
    negatives->tensors[i] =
        (clave_delegate_tensor){.name = negatives->names[i],
                                .kind = i < n ? CLAVE_SLOT_INPUT : CLAVE_SLOT_OUTPUT,
                                .dtype = CLAVE_F32,
                                .rank = 1,
                                .sizes = {1 + i % n}};
  }
  for (uint32_t i = 0; i < n; i++) {
    const uint32_t *from = &negatives->indices[i], *to = &negatives->indices[n + i];
    negatives->sizes[i] = (clave_delegate_size){negatives->names[i], 1, 4};
    negatives->fields[i][0] = (clave_delegate_field){
        .name = "inputs", .kind = CLAVE_DELEGATE_READS_LIST, .n = 1, .tensors = from};
    negatives->fields[i][1] = (clave_delegate_field){
        .name = "neg", .kind = CLAVE_DELEGATE_STEP, .dtype = CLAVE_F32, .n = 1, .operands = first};
    negatives->fields[i][2] =
        (clave_delegate_field){.name = "out", .kind = CLAVE_DELEGATE_WRITES, .n = 1, .tensors = to};
    negatives->nodes[i] = (clave_delegate_node){"Elementwise", "neg", negatives->fields[i], 3};
  }
  negatives->g = (clave_delegate_graph){.size = sizeof negatives->g,
                                        .sizes = n ? negatives->sizes : NULL,
                                        .n_sizes = n,
                                        .tensors = n ? negatives->tensors : NULL,
                                        .n_tensors = 2 * n,
                                        .nodes = n ? negatives->nodes : NULL,
                                        .n_nodes = n};
}

static void test_lists_of_a_graph(void **state) {
  (void)state;
  static negatives negatives;
  static clave_delegate_answer answers[MANY];
  static const uint32_t counts[] = {0, 1, 2, MANY};
  for (int c = 0; c < 4; c++) {
    const uint32_t n = counts[c];
    const clave_delegate_payload payload = {
        .size = sizeof payload, .format = CLAVE_DELEGATE_GRAPH, .graph = &negatives.g};
    clave_delegate_handle p, in;
    init_negatives(&negatives, n);
    fine(d.query(device, &negatives.g, n ? answers : NULL));
    for (uint32_t i = 0; i < n; i++) assert_true(answers[i].supported);
    fine(d.load(&payload, &p));
    in = create(p);
    for (uint32_t i = 0; i < n; i++) {
      float x = (float)i;
      const clave_tensor value = clave_tensor_make(CLAVE_F32, 1, (int64_t[]){1}, &x);
      fine(d.set_input(in, NULL, i, &value));
    }
    fine(d.execute(in, NULL));
    for (uint32_t i = 0; i < n; i++) {
      clave_tensor tensor;
      fine(d.result(in, NULL, i, &tensor));
      assert_true(*(const float *)tensor.data == -(float)i);
    }
    fine(d.destroy(in));
    fine(d.unload(p));
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_graph),
      cmocka_unit_test(test_initial_state),
      cmocka_unit_test(test_bad_initial_state),
      cmocka_unit_test(test_query),
      cmocka_unit_test(test_query_of_a_program),
      cmocka_unit_test(test_bad_graphs),
      cmocka_unit_test(test_inputs_that_overlap),
      cmocka_unit_test(test_lists_of_a_graph),
  };
  return cmocka_run_group_tests(tests, open_all, close_all);
}
