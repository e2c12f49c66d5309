/* Products of one tensor become one product and slices, with one joined constant for all methods;
 * near misses stay as they are. */
#include <math.h>

#include "api/expect.h"
#include "clave_builder.h"

enum { ROWS = 3, INNER = 4, PARTS = 3, MOST = 256 };

typedef enum variant {
  TURNED,      /* weights (N, K) behind a Permute */
  COLUMNS,     /* weights (K, N) */
  ONE_BIAS,    /* of one product only */
  TWO_METHODS, /* the second multiplies the same weights, in another order */
  N_JOINED,
  TIED = N_JOINED, /* a sum reads a weight */
  NO_CONSTANT,     /* a weight is an input */
  OUTPUT,          /* a product is an output */
  DENSE,           /* a norm reads a product, and rows are many */
  OTHER_METHOD,    /* another method multiplies one of the weights alone */
  ALPHA,           /* a product is scaled */
  N_VARIANTS
} variant;
static const int64_t columns[PARTS] = {2, 5, 3};

typedef struct building {
  clave_builder *b;
  variant how;
  clave_id x, weights[PARTS], bias;
  int n_outputs;
} building;

/* ---------------------------------------------------------------- programs */

static clave_id slot(const building *g, clave_slot_kind kind, const char *name, int64_t rows,
                     int64_t n) {
  return clave_builder_tensor(g->b, kind, name, CLAVE_F32, 2, (const int64_t[]){rows, n}, NULL);
}

static clave_id constant(const building *g, const char *name, int rank, const int64_t *dims,
                         double phase) {
  float data[MOST];
  int64_t n = rank == 2 ? dims[0] * dims[1] : dims[0];
  for (int64_t i = 0; i < n; i++) data[i] = (float)sin(1.3 * (double)i + phase);
  clave_tensor t = clave_tensor_make(CLAVE_F32, rank, dims, data);
  return clave_builder_constant(g->b, name, &t, true);
}

static bool is_turned(const building *g) { return g->how != COLUMNS; }

static void add_weights(building *g) {
  for (int i = 0; i < PARTS; i++) {
    const char name[] = {'w', (char)('0' + i), 0};
    const int64_t dims[] = {is_turned(g) ? columns[i] : INNER, is_turned(g) ? INNER : columns[i]};
    g->weights[i] = g->how == NO_CONSTANT && i == 1
                        ? slot(g, CLAVE_SLOT_INPUT, name, dims[0], dims[1])
                        : constant(g, name, 2, dims, i);
  }
  g->bias = constant(g, "bias", 1, &columns[1], 7);
}

static clave_id turned(const building *g, int part) {
  clave_id out = slot(g, CLAVE_SLOT_TEMPORARY, "", INNER, columns[part]);
  clave_builder_op(g->b, "Permute", "turned");
  clave_builder_set_tensor(g->b, "x", g->weights[part]);
  clave_builder_set_ints(g->b, "dims", (const int32_t[]){1, 0}, 2);
  clave_builder_set_tensor(g->b, "out", out);
  return out;
}

static clave_id output(building *g, int64_t rows, int64_t n) {
  const char name[] = {'y', (char)('0' + g->n_outputs++), 0};
  clave_id y = slot(g, CLAVE_SLOT_OUTPUT, name, rows, n);
  clave_builder_output(g->b, name, y);
  return y;
}

/* An output of what one op makes of it. */
static void read(building *g, const char *op, clave_id x, int64_t rows, int64_t n) {
  const clave_operand o = {.source = CLAVE_OPERAND_INPUT};
  clave_id y = output(g, rows, n);
  clave_builder_op(g->b, op, "reader");
  if (strcmp(op, "Elementwise") == 0) {
    clave_builder_set_tensors(g->b, "inputs", &x, 1);
    clave_builder_step(g->b, "abs", CLAVE_F32, &o, 1);
  } else {
    clave_builder_set_tensor(g->b, "x", x);
    clave_builder_set_float(g->b, "eps", 0.1);
  }
  clave_builder_set_tensor(g->b, "out", y);
}

static void add_product(building *g, int part) {
  bool is_output = g->how == OUTPUT && part == 1;
  clave_id b = is_turned(g) ? turned(g, part) : g->weights[part];
  clave_id out = is_output ? output(g, ROWS, columns[part])
                           : slot(g, CLAVE_SLOT_TEMPORARY, "", ROWS, columns[part]);
  clave_builder_op(g->b, "Matmul", "product");
  clave_builder_set_tensor(g->b, "a", g->x);
  clave_builder_set_tensor(g->b, "b", b);
  if (part == 1 && g->how == ONE_BIAS) clave_builder_set_tensor(g->b, "bias", g->bias);
  if (part == 1 && g->how == ALPHA) clave_builder_set_float(g->b, "alpha", 2);
  clave_builder_set_tensor(g->b, "out", out);
  if (is_output) return;
  const char *op = g->how == DENSE && part == 1 ? "RmsNorm" : "Elementwise";
  read(g, op, out, ROWS, columns[part]);
}

static void add_method(building *g, const char *name) {
  g->x = slot(g, CLAVE_SLOT_INPUT, name, ROWS, INNER);
  clave_builder_method(g->b, name);
  clave_builder_input(g->b, "x", g->x);
  if (g->how == NO_CONSTANT) clave_builder_input(g->b, "w1", g->weights[1]);
}

static clave_program *build(variant how) {
  building g = {.how = how};
  clave_program *p;
  good(clave_builder_create(&g.b));
  add_weights(&g);
  add_method(&g, "one");
  for (int i = 0; i < PARTS; i++) add_product(&g, i);
  if (how == TIED) read(&g, "Elementwise", g.weights[1], columns[1], INNER);
  if (how == TWO_METHODS || how == OTHER_METHOD) add_method(&g, "two");
  for (int i = PARTS; how == TWO_METHODS && i-- > 0;) add_product(&g, i);
  if (how == OTHER_METHOD) add_product(&g, 1);
  good(clave_builder_finish(g.b, &p));
  clave_builder_destroy(g.b);
  return p;
}

/* ---------------------------------------------------------------- runs */

static size_t copy_outputs(clave_session *s, const char *method, uint32_t n_outputs, float *out) {
  size_t n = 0;
  clave_tensor y;
  for (uint32_t k = 0; k < n_outputs; k++) {
    good(clave_session_output(s, method, k, &y));
    size_t numel = (size_t)(y.dims[0] * y.dims[1]);
    assert_true(n + numel <= MOST);
    memcpy(out + n, y.data, numel * sizeof *out);
    n += numel;
  }
  return n;
}

/* All outputs of a method, one behind the other; how many numbers. */
static size_t run(clave_program *p, uint32_t method, float *out) {
  static float x[MOST];
  clave_method_info m = {.size = sizeof m};
  clave_device *device;
  clave_session *s;
  for (int i = 0; i < MOST; i++) x[i] = (float)sin(i * 1.7);
  const clave_tensor in = clave_tensor_make(CLAVE_F32, 2, (const int64_t[]){ROWS, INNER}, x),
                     w = clave_tensor_make(CLAVE_F32, 2, (const int64_t[]){columns[1], INNER}, x);
  good(clave_program_method(p, method, &m));
  good(clave_device_open("cpu", NULL, &device));
  good(clave_session_create(p, device, NULL, &s));
  good(clave_session_set_input(s, m.name, 0, &in));
  if (m.n_inputs > 1) good(clave_session_set_input(s, m.name, 1, &w));
  good(clave_session_run(s, m.name));
  size_t n = copy_outputs(s, m.name, m.n_outputs, out);
  clave_session_destroy(s);
  clave_device_destroy(device);
  return n;
}

static void same_results(clave_program *a, clave_program *b, uint32_t method) {
  static float x[MOST], y[MOST];
  size_t n = run(a, method, x);
  assert_int_equal(run(b, method, y), n);
  for (size_t i = 0; i < n; i++) assert_true(fabsf(x[i] - y[i]) <= 1e-5F * (1 + fabsf(x[i])));
}

static void note_applied(void *applied, const clave_pass_info *info) {
  if (info->refused) fail_msg("%s: %s", info->name, info->refused);
  if (strcmp(info->name, "join_matmul") == 0) *(uint32_t *)applied = info->applied;
}

/* How often the pass applied, after checking the numbers. *bytes: of the new constants. */
static uint32_t applied_to(variant how, uint64_t *bytes) {
  static const char *const passes[] = {"join_matmul"};
  uint32_t applied = 0;
  clave_program_info before = {.size = sizeof before}, after = {.size = sizeof after};
  clave_program *p = build(how), *made;
  clave_optimize_options o = {sizeof o, passes, 1, note_applied, &applied};
  good(clave_program_optimize(p, &o, &made));
  good(clave_program_get_info(p, &before));
  good(clave_program_get_info(made, &after));
  for (uint32_t m = 0; m < before.n_methods; m++) same_results(p, made, m);
  *bytes = after.constant_bytes;
  if (applied) assert_int_equal(after.n_constants, how == ONE_BIAS ? 2 : 1);
  clave_program_destroy(made);
  clave_program_destroy(p);
  return applied;
}

static void products_of_one_tensor_become_one(void **state) {
  (void)state;
  const uint64_t weights = (2 + 5 + 3) * INNER * sizeof(float), bias = (2 + 5 + 3) * sizeof(float);
  for (variant how = 0; how < N_JOINED; how++) {
    uint64_t bytes;
    assert_int_equal(applied_to(how, &bytes), how == TWO_METHODS ? 2 : 1);
    assert_int_equal(bytes, weights + (how == ONE_BIAS ? bias : 0));
  }
}

/* Of three products the two others are joined, but where weights of a method are. */
static void near_misses_are_left(void **state) {
  (void)state;
  for (variant how = N_JOINED; how < N_VARIANTS; how++) {
    clave_method_info m = {.size = sizeof m};
    static const char *const passes[] = {"join_matmul"};
    uint32_t applied = 0;
    clave_node_info node = {.size = sizeof node};
    clave_program *p = build(how), *made;
    clave_optimize_options o = {sizeof o, passes, 1, note_applied, &applied};
    good(clave_program_optimize(p, &o, &made));
    good(clave_program_method(made, 0, &m));
    uint32_t products = 0;
    for (uint32_t i = 0; i < m.n_nodes; i++) {
      good(clave_program_node(made, m.name, i, &node));
      products += strcmp(node.op, "matmul") == 0;
    }
    assert_int_equal(products, how == OTHER_METHOD ? 3 : 2);
    same_results(p, made, 0);
    clave_program_destroy(made);
    clave_program_destroy(p);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(products_of_one_tensor_become_one),
      cmocka_unit_test(near_misses_are_left),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
