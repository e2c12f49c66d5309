/* Products of one tensor are joined into one product and slices, with one joined constant for all
 * methods; near misses stay unchanged. */
#include <math.h>

#include "api/expect.h"
#include "clave_builder.h"

enum { ROWS = 3, INNER = 4, PARTS = 3, MOST = 256 };

typedef enum variant {
  TURNED,      /* weights (N, K) read through a Permute */
  COLUMNS,     /* weights (K, N) */
  ONE_BIAS,    /* bias of one product only */
  TWO_METHODS, /* a second method multiplies the same weights in another order */
  N_JOINED,
  TIED = N_JOINED, /* a sum reads a weight */
  NO_CONSTANT,     /* a weight is an input */
  OUTPUT,          /* a product is an output */
  DENSE,           /* a norm reads a product, and rows are many */
  OTHER_METHOD,    /* another method multiplies only one of the weights */
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

static clave_id slot(const building *building, clave_slot_kind kind, const char *name, int64_t rows,
                     int64_t n) {
  return clave_builder_tensor(building->b, kind, name, CLAVE_F32, 2, (const int64_t[]){rows, n},
                              NULL);
}

static clave_id constant(const building *building, const char *name, int rank, const int64_t *dims,
                         double phase) {
  float data[MOST];
  int64_t n = rank == 2 ? dims[0] * dims[1] : dims[0];
  for (int64_t i = 0; i < n; i++) data[i] = (float)sin(1.3 * (double)i + phase);
  clave_tensor tensor = clave_tensor_make(CLAVE_F32, rank, dims, data);
  return clave_builder_constant(building->b, name, &tensor, true);
}

static bool is_turned(const building *building) { return building->how != COLUMNS; }

static void add_weights(building *building) {
  for (int i = 0; i < PARTS; i++) {
    const char name[] = {'w', (char)('0' + i), 0};
    const int64_t dims[] = {is_turned(building) ? columns[i] : INNER,
                            is_turned(building) ? INNER : columns[i]};
    building->weights[i] = building->how == NO_CONSTANT && i == 1
                               ? slot(building, CLAVE_SLOT_INPUT, name, dims[0], dims[1])
                               : constant(building, name, 2, dims, i);
  }
  building->bias = constant(building, "bias", 1, &columns[1], 7);
}

static clave_id turned(const building *building, int part) {
  clave_id out = slot(building, CLAVE_SLOT_TEMPORARY, "", INNER, columns[part]);
  clave_builder_op(building->b, "Permute", "turned");
  clave_builder_set_tensor(building->b, "x", building->weights[part]);
  clave_builder_set_ints(building->b, "dims", (const int32_t[]){1, 0}, 2);
  clave_builder_set_tensor(building->b, "out", out);
  return out;
}

static clave_id output(building *building, int64_t rows, int64_t n) {
  const char name[] = {'y', (char)('0' + building->n_outputs++), 0};
  clave_id y = slot(building, CLAVE_SLOT_OUTPUT, name, rows, n);
  clave_builder_output(building->b, name, y);
  return y;
}

/* Adds an output that one op computes from x. */
static void add_reader(building *building, const char *op, clave_id x, int64_t rows, int64_t n) {
  const clave_operand operand = {.source = CLAVE_OPERAND_INPUT};
  clave_id y = output(building, rows, n);
  clave_builder_op(building->b, op, "reader");
  if (strcmp(op, "Elementwise") == 0) {
    clave_builder_set_tensors(building->b, "inputs", &x, 1);
    clave_builder_step(building->b, "abs", CLAVE_F32, &operand, 1);
  } else {
    clave_builder_set_tensor(building->b, "x", x);
    clave_builder_set_float(building->b, "eps", 0.1);
  }
  clave_builder_set_tensor(building->b, "out", y);
}

static void add_product(building *building, int part) {
  bool is_output = building->how == OUTPUT && part == 1;
  clave_id b = is_turned(building) ? turned(building, part) : building->weights[part];
  clave_id out = is_output ? output(building, ROWS, columns[part])
                           : slot(building, CLAVE_SLOT_TEMPORARY, "", ROWS, columns[part]);
  clave_builder_op(building->b, "Matmul", "product");
  clave_builder_set_tensor(building->b, "a", building->x);
  clave_builder_set_tensor(building->b, "b", b);
  if (part == 1 && building->how == ONE_BIAS)
    clave_builder_set_tensor(building->b, "bias", building->bias);
  if (part == 1 && building->how == ALPHA) clave_builder_set_float(building->b, "alpha", 2);
  clave_builder_set_tensor(building->b, "out", out);
  if (is_output) return;
  const char *op = building->how == DENSE && part == 1 ? "RmsNorm" : "Elementwise";
  add_reader(building, op, out, ROWS, columns[part]);
}

static void add_method(building *building, const char *name) {
  building->x = slot(building, CLAVE_SLOT_INPUT, name, ROWS, INNER);
  clave_builder_method(building->b, name);
  clave_builder_input(building->b, "x", building->x);
  if (building->how == NO_CONSTANT) clave_builder_input(building->b, "w1", building->weights[1]);
}

static clave_program *build(variant how) {
  building building = {.how = how};
  clave_program *program;
  good(clave_builder_create(&building.b));
  add_weights(&building);
  add_method(&building, "one");
  for (int i = 0; i < PARTS; i++) add_product(&building, i);
  if (how == TIED) add_reader(&building, "Elementwise", building.weights[1], columns[1], INNER);
  if (how == TWO_METHODS || how == OTHER_METHOD) add_method(&building, "two");
  for (int i = PARTS; how == TWO_METHODS && i-- > 0;) add_product(&building, i);
  if (how == OTHER_METHOD) add_product(&building, 1);
  good(clave_builder_finish(building.b, &program));
  clave_builder_destroy(building.b);
  return program;
}

/* ---------------------------------------------------------------- runs */

static size_t copy_outputs(clave_session *session, const char *method, uint32_t n_outputs,
                           float *out) {
  size_t n = 0;
  clave_tensor tensor;
  for (uint32_t k = 0; k < n_outputs; k++) {
    good(clave_session_output(session, method, k, &tensor));
    size_t numel = (size_t)(tensor.dims[0] * tensor.dims[1]);
    assert_true(n + numel <= MOST);
    memcpy(out + n, tensor.data, numel * sizeof *out);
    n += numel;
  }
  return n;
}

/* Copies all outputs of a method one after the other and returns the number of floats. */
static size_t run(clave_program *program, uint32_t method, float *out) {
  static float x[MOST];
  clave_method_info info = {.size = sizeof info};
  clave_device *device;
  clave_session *session;
  for (int i = 0; i < MOST; i++) x[i] = (float)sin(i * 1.7);
  const clave_tensor in = clave_tensor_make(CLAVE_F32, 2, (const int64_t[]){ROWS, INNER}, x),
                     tensor =
                         clave_tensor_make(CLAVE_F32, 2, (const int64_t[]){columns[1], INNER}, x);
  good(clave_program_method(program, method, &info));
  good(clave_device_open("cpu", NULL, &device));
  good(clave_session_create(program, device, NULL, &session));
  good(clave_session_set_input(session, info.name, 0, &in));
  if (info.n_inputs > 1) good(clave_session_set_input(session, info.name, 1, &tensor));
  good(clave_session_run(session, info.name));
  size_t n = copy_outputs(session, info.name, info.n_outputs, out);
  clave_session_destroy(session);
  clave_device_destroy(device);
  return n;
}

static void same_results(clave_program *left, clave_program *right, uint32_t method) {
  static float x[MOST], y[MOST];
  size_t n = run(left, method, x);
  assert_int_equal(run(right, method, y), n);
  for (size_t i = 0; i < n; i++) assert_true(fabsf(x[i] - y[i]) <= 1e-5F * (1 + fabsf(x[i])));
}

static void note_applied(void *applied, const clave_pass_info *info) {
  if (info->refused) fail_msg("%s: %s", info->name, info->refused);
  if (strcmp(info->name, "join_matmul") == 0) *(uint32_t *)applied = info->applied;
}

/* Checks that the results are the same and returns how often the pass was applied. *bytes: size of
 * the new constants. */
static uint32_t applied_to(variant how, uint64_t *bytes) {
  static const char *const passes[] = {"join_matmul"};
  uint32_t applied = 0;
  clave_program_info before = {.size = sizeof before}, after = {.size = sizeof after};
  clave_program *program = build(how), *made;
  clave_optimize_options options = {sizeof options, passes, 1, note_applied, &applied};
  good(clave_program_optimize(program, &options, &made));
  good(clave_program_get_info(program, &before));
  good(clave_program_get_info(made, &after));
  for (uint32_t m = 0; m < before.n_methods; m++) same_results(program, made, m);
  *bytes = after.constant_bytes;
  if (applied) assert_int_equal(after.n_constants, how == ONE_BIAS ? 2 : 1);
  clave_program_destroy(made);
  clave_program_destroy(program);
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

/* A near miss keeps one of three products separate; the others are joined, except in OTHER_METHOD.
 */
static void near_misses_are_left(void **state) {
  (void)state;
  for (variant how = N_JOINED; how < N_VARIANTS; how++) {
    clave_method_info info = {.size = sizeof info};
    static const char *const passes[] = {"join_matmul"};
    uint32_t applied = 0;
    clave_node_info node = {.size = sizeof node};
    clave_program *program = build(how), *made;
    clave_optimize_options options = {sizeof options, passes, 1, note_applied, &applied};
    good(clave_program_optimize(program, &options, &made));
    good(clave_program_method(made, 0, &info));
    uint32_t products = 0;
    for (uint32_t i = 0; i < info.n_nodes; i++) {
      good(clave_program_node(made, info.name, i, &node));
      products += strcmp(node.op, "matmul") == 0;
    }
    assert_int_equal(products, how == OTHER_METHOD ? 3 : 2);
    same_results(program, made, 0);
    clave_program_destroy(made);
    clave_program_destroy(program);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(products_of_one_tensor_become_one),
      cmocka_unit_test(near_misses_are_left),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
