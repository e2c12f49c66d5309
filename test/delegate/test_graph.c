/* A host's own graph: asked about node by node, handed over as a payload; hostile descriptions. */
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

static void init_sample(sample *s) {
  *s = (sample){.w = {1, -2, 0.5f, 3, 1, -1},
                .b = {0.25f, -4},
                .sizes = {{"n", 1, 9}},
                .tensors = {{"x", CLAVE_SLOT_INPUT, CLAVE_F32, 2, {0, IN}, {1}, NULL},
                            {"w", CLAVE_SLOT_CONSTANT, CLAVE_F32, 2, {IN, OUT}, {0}, s->w},
                            {"b", CLAVE_SLOT_CONSTANT, CLAVE_F32, 1, {OUT}, {0}, s->b},
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
                .nodes = {{"Matmul", "dense", s->product, 4},
                          {"elementwise", "activation", s->relu, 3},
                          {"Softmax", "scores", s->softmax, 3}}};
  s->g = (clave_delegate_graph){.size = sizeof s->g,
                                .sizes = s->sizes,
                                .n_sizes = 1,
                                .tensors = s->tensors,
                                .n_tensors = 6,
                                .nodes = s->nodes,
                                .n_nodes = 3};
}

/* Held against the sums by hand. */
static void test_graph(void **state) {
  (void)state;
  for (int copy = 0; copy < 2; copy++) {
    sample *s = malloc(sizeof *s);
    init_sample(s);
    clave_delegate_handle p;
    const clave_delegate_payload payload = {
        .size = sizeof payload, .format = CLAVE_DELEGATE_GRAPH, .graph = &s->g, .copy = copy};
    fine(d.load(&payload, &p));
    if (copy) memset(s, 0xAA, sizeof *s);
    clave_delegate_handle in = create(p);
    clave_tensor_info info = {.size = sizeof info};
    fine(d.input(p, NULL, 0, &info));
    assert_string_equal(info.name, "x");
    assert_int_equal(info.dims[0], CLAVE_DYNAMIC);
    assert_int_equal(info.max_dims[0], 9);
    static float x[] = {1, 2, 3, -1, -3, 4};
    const clave_tensor value = clave_tensor_make(CLAVE_F32, 2, (int64_t[]){2, IN}, x);
    clave_tensor y;
    fine(d.set_input(in, NULL, 0, &value));
    fine(d.execute(in, NULL));
    fine(d.result(in, NULL, 0, &y));
    const float *got = y.data; /* rows (5.25, -3), (1.75, -15) before relu */
    const float want[] = {0.994780f, 0.005220f, 0.851953f, 0.148047f};
    for (int i = 0; i < 4; i++) assert_float_equal(got[i], want[i], 1e-5);
    fine(d.destroy(in));
    fine(d.unload(p));
    free(s);
  }
}

/* y = sum + x, which sum becomes: a host's graph with state. */
typedef struct counter {
  float first[2];
  const void *initial[3];
  clave_delegate_tensor tensors[3];
  clave_delegate_field add[3];
  clave_delegate_node node;
  clave_delegate_update update;
  clave_delegate_graph g;
} counter;

static void init_counter(counter *c) {
  static const uint32_t both[] = {0, 1};
  static const clave_delegate_operand two[] = {{.source = CLAVE_DELEGATE_OPERAND_INPUT},
                                               {.source = CLAVE_DELEGATE_OPERAND_INPUT, .i = 1}};
  *c = (counter){
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
      .node = {"Elementwise", "add", c->add, 3},
      .update = {0, 2}};
  c->initial[0] = c->first;
  c->g = (clave_delegate_graph){.size = sizeof c->g,
                                .tensors = c->tensors,
                                .n_tensors = 3,
                                .nodes = &c->node,
                                .n_nodes = 1,
                                .initial = c->initial,
                                .updates = &c->update,
                                .n_updates = 1};
}

static void expect_sums(clave_delegate_handle in, float a, float b) {
  clave_tensor y;
  fine(d.execute(in, NULL));
  fine(d.result(in, NULL, 0, &y));
  assert_float_equal(((float *)y.data)[0], a, 0);
  assert_float_equal(((float *)y.data)[1], b, 0);
}

/* States begin with what the host says, again after a reset, and become what it says; in graphs of
 * the first release, which say nothing, they are zeros and stay. */
static void test_initial_state(void **state) {
  (void)state;
  for (int way = 0; way < 4; way++) {
    const bool copy = way == 1, old = way == 2, none = way == 3;
    counter *c = malloc(sizeof *c);
    init_counter(c);
    clave_delegate_handle p;
    const clave_delegate_payload payload = {
        .size = sizeof payload, .format = CLAVE_DELEGATE_GRAPH, .graph = &c->g, .copy = copy};
    if (old) c->g.size = offsetof(clave_delegate_graph, initial);
    if (none) c->initial[0] = NULL;
    fine(d.load(&payload, &p));
    if (copy) memset(c, 0xAA, sizeof *c);
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
    free(c);
  }
}

static void test_bad_initial_state(void **state) {
  (void)state;
  static const clave_delegate_size sizes[] = {{"n", 1, 2}};
  counter c;
  clave_delegate_handle p;
  clave_delegate_answer a[1];
  const clave_delegate_payload payload = {
      .size = sizeof payload, .format = CLAVE_DELEGATE_GRAPH, .graph = &c.g};
  init_counter(&c);
  c.initial[1] = c.first;
  expect(d.load(&payload, &p), CLAVE_INVALID,
         "it has a first value, and is no state; tensor 1 of the graph");
  init_counter(&c);
  c.g.sizes = sizes;
  c.g.n_sizes = 1;
  for (int i = 0; i < 3; i++) c.tensors[i].sizes[0] = 1;
  expect(d.load(&payload, &p), CLAVE_INVALID, "it has a first value, and dimension 0 is open");
  init_counter(&c);
  c.update.tensor = 3;
  expect(d.load(&payload, &p), CLAVE_INVALID, "number 3 of 3; update 0 of the graph");
  init_counter(&c);
  c.update.state = 1;
  expect(d.load(&payload, &p), CLAVE_INVALID, "payload");
  init_counter(&c);
  c.tensors[0].dtype = CLAVE_I32;
  c.initial[0] = NULL;
  expect(d.load(&payload, &p), CLAVE_INVALID, "payload");
  init_counter(&c);
  c.g.updates = NULL;
  expect(d.load(&payload, &p), CLAVE_INVALID, "updates is NULL, with 1 of them");
  init_counter(&c);
  fine(d.query(device, &c.g, a));
  assert_true(a[0].supported);
}

static void test_query(void **state) {
  (void)state;
  sample s;
  clave_delegate_answer a[3];
  init_sample(&s);
  s.tensors[1].data = s.tensors[2].data = NULL; /* a question needs none */
  fine(d.query(device, &s.g, a));
  for (int i = 0; i < 3; i++) {
    assert_true(a[i].supported);
    assert_string_equal(a[i].where, "cpu");
    assert_string_equal(a[i].reason, "");
  }
  s.nodes[0].op = "Gemm"; /* no such op */
  s.tensors[4].dtype = CLAVE_I32;
  s.softmax[1].i = 2;
  fine(d.query(device, &s.g, a));
  for (int i = 0; i < 3; i++) assert_true(!a[i].supported && strcmp(a[i].where, "none") == 0);
  assert_non_null(strstr(a[0].reason, "Gemm"));
  assert_non_null(strstr(a[2].reason, "scores"));
}

/* Node by node, by method; wrong questions. What a device lacks: test_opencl.c. */
static void test_query_of_a_program(void **state) {
  (void)state;
  size_t size;
  int released = 0;
  char *bytes = read_file(MNIST, &size);
  clave_delegate_handle p = load_clv(bytes, size, true, &released);
  clave_method_info m = {.size = sizeof m};
  fine(d.method(p, 0, &m));
  clave_delegate_answer *a = calloc(m.n_nodes, sizeof *a);
  fine(d.query_program(device, p, "forward", a, m.n_nodes));
  for (uint32_t i = 0; i < m.n_nodes; i++) assert_true(a[i].supported);
  assert_string_equal(a[0].where, "cpu");
  expect(d.query_program(device, p, "forward", a, m.n_nodes - 1), CLAVE_INVALID, "answers");
  expect(d.query_program(device, p, "backward", a, m.n_nodes), CLAVE_INVALID, "no method");
  expect(d.query_program(p, device, NULL, a, m.n_nodes), CLAVE_INVALID, "expected a device");
  free(a);
  fine(d.unload(p));
  free(bytes);
}

static void test_bad_graphs(void **state) {
  (void)state;
  static const uint32_t wild[] = {77};
  static const clave_delegate_operand no_source = {.source = 9}, no_step = {.source = 1, .i = -1},
                                      far_input = {.source = 0, .i = 1ll << 32};
  sample s;
  clave_delegate_handle p;
  clave_delegate_answer a[3];
  const clave_delegate_payload payload = {
      .size = sizeof payload, .format = CLAVE_DELEGATE_GRAPH, .graph = &s.g};
#define REFUSED(change, words)                        \
  init_sample(&s);                                    \
  change;                                             \
  expect(d.load(&payload, &p), CLAVE_INVALID, words); \
  expect(d.query(device, &s.g, a), CLAVE_INVALID, words)
  REFUSED(s.product[0].tensors = wild, "number 77 of 6; field 0 of op 'Matmul'; node 0");
  REFUSED(s.product[0].tensors = NULL, "tensors is NULL");
  REFUSED(s.product[0].n = 2, "expected 1 tensor, got 2");
  REFUSED(s.product[0].kind = 99, "expected a clave_delegate_field_kind, got 99");
  REFUSED(s.product[0].name = NULL, "name is NULL");
  REFUSED(s.relu[1].operands = NULL, "operands is NULL");
  REFUSED(s.relu[1].operands = &no_source, "operand 0: expected a clave_delegate_source, got 9");
  REFUSED(s.relu[1].operands = &far_input,
          "operand 0: expected 0 to 4294967295, got input 4294967296");
  REFUSED(s.relu[1].operands = &no_step, "operand 0: expected 0 to 4294967295, got step -1");
  REFUSED(s.tensors[3].rank = 9, "expected rank 0 to 8, got 9; tensor 3");
  REFUSED(s.tensors[3].dims[1] = -5, "dimension 1 is -5");
  REFUSED(s.tensors[3].sizes[0] = 2, "dimension 0 is size 2 of 1");
  REFUSED(s.tensors[3].dtype = 55, "dtype 55");
  REFUSED(s.tensors[3].kind = 55, "expected a clave_slot_kind, got 55");
  REFUSED(s.tensors[3].name = NULL, "name is NULL");
  REFUSED(s.nodes[1].op = NULL, "op is NULL");
  REFUSED(s.g.nodes = NULL, "nodes is NULL");
  REFUSED(s.g.size = 4, "or more, got 4");
  init_sample(&s);
  s.tensors[1].data = NULL;
  expect(d.load(&payload, &p), CLAVE_INVALID, "constant 1 ('w') has no data");
  init_sample(&s);
  s.tensors[1].sizes[0] = 1;
  expect(d.load(&payload, &p), CLAVE_INVALID, "open dimension");
  init_sample(&s);
  s.g.n_nodes = 2; /* nobody writes y */
  clave_status st = d.load(&payload, &p);
  assert_int_equal(d.status_code(st), CLAVE_INVALID);
  d.status_free(st);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_graph),
      cmocka_unit_test(test_initial_state),
      cmocka_unit_test(test_bad_initial_state),
      cmocka_unit_test(test_query),
      cmocka_unit_test(test_query_of_a_program),
      cmocka_unit_test(test_bad_graphs),
  };
  return cmocka_run_group_tests(tests, open_all, close_all);
}
