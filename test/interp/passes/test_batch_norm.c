/* Batch norms are folded into the product before them, unless something else reads the product. */
#include <math.h>

#include "api/expect.h"
#include "clave_builder.h"

enum { BATCH = 2, IN = 4, OUT = 6, SIDE = 5, MOST = 1024 };

typedef enum product {
  CONV,
  CONV_BIAS,
  CONV_GROUPS,
  TRANSPOSED,
  LINEAR,
  COLUMNS,
  N_PRODUCTS
} product;

/* Programs in which the norm is folded (the first three) or must be kept. */
typedef enum variant {
  PLAIN,         /* one product, one norm: folded */
  SYMBOLIC,      /* any batch: folded */
  TWO_SAME,      /* two products of one weight with equal norms; both are folded to one weight */
  READ_OUTSIDE,  /* the product's result is also an output */
  WEIGHT_SHARED, /* another product reads the weight */
  COMPUTED,      /* the variance is an input */
  NO_NUMBER,     /* a negative variance */
  N_VARIANTS
} variant;
static const uint32_t folded[] = {1, 1, 2, 0, 0, 0, 0};

typedef struct building {
  clave_builder *b;
  product kind;
  variant how;
  clave_id batch, x, weight, bias, out; /* out: the product's last result */
  clave_id norm[4];                     /* weight, bias, mean, var */
  int n_outputs;
} building;

/* ---------------------------------------------------------------- programs */

static bool is_matrix(const building *building) { return building->kind >= LINEAR; }

static clave_id slot(const building *building, clave_slot_kind kind, const char *name,
                     int64_t channels, int64_t side) {
  const int64_t dims[] = {BATCH, channels, side, side};
  const clave_id values[] = {building->how == SYMBOLIC ? building->batch : 0, 0, 0, 0};
  return clave_builder_tensor(building->b, kind, name, CLAVE_F32, is_matrix(building) ? 2 : 4, dims,
                              values);
}

static clave_id constant(const building *building, const char *name, int rank, const int64_t *dims,
                         double low) {
  float data[MOST];
  int64_t n = 1;
  for (int i = 0; i < rank; i++) n *= dims[i];
  for (int64_t i = 0; i < n; i++) data[i] = (float)(low + 1 + sin(1.3 * (double)i));
  clave_tensor tensor = clave_tensor_make(CLAVE_F32, rank, dims, data);
  return clave_builder_constant(building->b, name, &tensor, true);
}

static clave_id vector(const building *building, const char *name, double low) {
  return constant(building, name, 1, (const int64_t[]){OUT}, low);
}

static clave_id weight_of(const building *building) {
  static const int64_t dims[N_PRODUCTS][4] = {[CONV] = {OUT, IN, 3, 3},
                                              [CONV_BIAS] = {OUT, IN, 3, 3},
                                              [CONV_GROUPS] = {OUT, IN / 2, 3, 3},
                                              [TRANSPOSED] = {IN, OUT / 2, 3, 3},
                                              [LINEAR] = {OUT, IN},
                                              [COLUMNS] = {IN, OUT}};
  return constant(building, "weight", is_matrix(building) ? 2 : 4, dims[building->kind], -0.9);
}

static void set_conv(const building *building) {
  const int32_t one[] = {1, 1}, none[] = {0, 0};
  clave_builder_set_tensor(building->b, "x", building->x);
  clave_builder_set_tensor(building->b, "weight", building->weight);
  clave_builder_set_ints(building->b, "stride", one, 2);
  clave_builder_set_ints(building->b, "padding", building->kind == TRANSPOSED ? one : none, 2);
  clave_builder_set_ints(building->b, "dilation", one, 2);
  if (building->kind == TRANSPOSED) clave_builder_set_ints(building->b, "output_padding", none, 2);
  clave_builder_set_int(building->b, "groups",
                        building->kind == CONV_GROUPS || building->kind == TRANSPOSED ? 2 : 1);
}

static clave_id turned(const building *building) {
  const int64_t dims[] = {IN, OUT};
  clave_id out =
      clave_builder_tensor(building->b, CLAVE_SLOT_TEMPORARY, "", CLAVE_F32, 2, dims, NULL);
  clave_builder_op(building->b, "Permute", "turned");
  clave_builder_set_tensor(building->b, "x", building->weight);
  clave_builder_set_ints(building->b, "dims", (const int32_t[]){1, 0}, 2);
  clave_builder_set_tensor(building->b, "out", out);
  return out;
}

static void set_matmul(const building *building, clave_id b) {
  clave_builder_set_tensor(building->b, "a", building->x);
  clave_builder_set_tensor(building->b, "b", b);
  clave_builder_set_float(building->b, "alpha", 0.5);
  clave_builder_set_float(building->b, "beta", -2);
}

/* Returns the side of the output: (2, 6, 3, 3), transposed (2, 6, 5, 5); matrices are (2, 6). */
static int64_t out_side(const building *building) {
  return building->kind == TRANSPOSED ? SIDE : SIDE - 2;
}

static clave_id add_product(building *building) {
  clave_id out = slot(building, CLAVE_SLOT_TEMPORARY, "", OUT, out_side(building));
  clave_id b = building->kind == LINEAR ? turned(building) : building->weight;
  clave_builder_op(building->b,
                   is_matrix(building)            ? "Matmul"
                   : building->kind == TRANSPOSED ? "ConvTranspose"
                                                  : "Conv",
                   "product");
  if (is_matrix(building)) {
    set_matmul(building, b);
  } else {
    set_conv(building);
  }
  if (building->kind != CONV) clave_builder_set_tensor(building->b, "bias", building->bias);
  clave_builder_set_tensor(building->b, "out", out);
  return out;
}

static clave_id output(building *building) {
  char name[8] = {'y', (char)('0' + building->n_outputs++), 0};
  clave_id y = slot(building, CLAVE_SLOT_OUTPUT, name, OUT, out_side(building));
  clave_builder_output(building->b, name, y);
  return y;
}

static void add_norm(building *building, clave_id x) {
  static const char *const fields[] = {"weight", "bias", "mean", "var"};
  clave_id y = output(building);
  clave_builder_op(building->b, "BatchNorm", "norm");
  clave_builder_set_tensor(building->b, "x", x);
  for (int i = building->kind == COLUMNS ? 2 : 0; i < 4; i++)
    clave_builder_set_tensor(building->b, fields[i], building->norm[i]);
  clave_builder_set_float(building->b, "eps", 0.01);
  clave_builder_set_tensor(building->b, "out", y);
}

static void add_abs(building *building, clave_id x) {
  const clave_operand operand = {.source = CLAVE_OPERAND_INPUT};
  clave_id y = output(building);
  clave_builder_op(building->b, "Elementwise", "abs");
  clave_builder_set_tensors(building->b, "inputs", &x, 1);
  clave_builder_step(building->b, "abs", CLAVE_F32, &operand, 1);
  clave_builder_set_tensor(building->b, "out", y);
}

static void add_operands(building *building) {
  const int64_t channels[] = {OUT};
  if (building->how == SYMBOLIC)
    building->batch = clave_builder_value(building->b, "batch", CLAVE_I64, 1, 8);
  building->x = slot(building, CLAVE_SLOT_INPUT, "x", IN, SIDE);
  building->weight = weight_of(building);
  building->bias = vector(building, "bias", -0.5);
  building->norm[0] = vector(building, "scale", -0.7);
  building->norm[1] = vector(building, "shift", -1);
  building->norm[2] = vector(building, "mean", -1.2);
  building->norm[3] =
      building->how == COMPUTED
          ? clave_builder_tensor(building->b, CLAVE_SLOT_INPUT, "var", CLAVE_F32, 1, channels, NULL)
          : vector(building, "var", building->how == NO_NUMBER ? -0.5 : 0.1);
}

static clave_program *build(product kind, variant how) {
  building building = {.kind = kind, .how = how};
  clave_program *program;
  good(clave_builder_create(&building.b));
  add_operands(&building);
  clave_builder_method(building.b, "forward");
  clave_builder_input(building.b, "x", building.x);
  if (how == COMPUTED) clave_builder_input(building.b, "var", building.norm[3]);
  clave_id product = add_product(&building);
  add_norm(&building, product);
  if (how == READ_OUTSIDE) add_abs(&building, product);
  if (how == TWO_SAME) add_norm(&building, add_product(&building));
  if (how == WEIGHT_SHARED) add_abs(&building, add_product(&building));
  good(clave_builder_finish(building.b, &program));
  clave_builder_destroy(building.b);
  return program;
}

/* ---------------------------------------------------------------- runs */

/* Copies all outputs one after the other and returns the number of floats. */
static size_t run(clave_program *program, product kind, int64_t batch, float *out) {
  static float x[MOST], var[OUT] = {1, 2, 0.5F, 3, 4, 0.25F};
  const int64_t dims[] = {batch, IN, SIDE, SIDE}, channels[] = {OUT};
  clave_tensor in = clave_tensor_make(CLAVE_F32, kind >= LINEAR ? 2 : 4, dims, x),
               of_var = clave_tensor_make(CLAVE_F32, 1, channels, var), tensor;
  clave_method_info info = {.size = sizeof info};
  clave_device *device;
  clave_session *session;
  size_t n = 0;
  for (int i = 0; i < MOST; i++) x[i] = (float)sin(i * 1.7);
  good(clave_program_method(program, 0, &info));
  good(clave_device_open("cpu", NULL, &device));
  good(clave_session_create(program, device, NULL, &session));
  good(clave_session_set_input(session, NULL, 0, &in));
  if (info.n_inputs > 1) good(clave_session_set_input(session, NULL, 1, &of_var));
  good(clave_session_run(session, NULL));
  for (uint32_t k = 0; k < info.n_outputs; k++) {
    size_t numel = 1;
    good(clave_session_output(session, NULL, k, &tensor));
    for (int i = 0; i < tensor.rank; i++) numel *= (size_t)tensor.dims[i];
    assert_true(n + numel <= 2 * MOST);
    memcpy(out + n, tensor.data, numel * sizeof *out);
    n += numel;
  }
  clave_session_destroy(session);
  clave_device_destroy(device);
  return n;
}

static void same_results(clave_program *left, clave_program *right, product kind, int64_t batch) {
  static float x[2 * MOST], y[2 * MOST];
  size_t n = run(left, kind, batch, x);
  assert_int_equal(run(right, kind, batch, y), n);
  for (size_t i = 0; i < n; i++) {
    assert_int_equal(isnan(x[i]), isnan(y[i]));
    if (!isnan(x[i])) assert_true(fabsf(x[i] - y[i]) <= 1e-5F * (1 + fabsf(x[i])));
  }
}

static void note_applied(void *applied, const clave_pass_info *info) {
  if (info->refused) fail_msg("%s: %s", info->name, info->refused);
  if (strcmp(info->name, "batch_norm") == 0) *(uint32_t *)applied = info->applied;
}

/* Checks that the results are the same and returns how often the pass was applied. *n_constants: of
 * the new program. */
static uint32_t applied_to(product kind, variant how, uint32_t *n_constants) {
  static const char *const passes[] = {"batch_norm"};
  uint32_t applied = 0;
  clave_program_info info = {.size = sizeof info};
  clave_program *program = build(kind, how), *made;
  clave_optimize_options options = {sizeof options, passes, 1, note_applied, &applied};
  good(clave_program_optimize(program, &options, &made));
  same_results(program, made, kind, BATCH);
  if (how == SYMBOLIC) same_results(program, made, kind, 3);
  good(clave_program_get_info(made, &info));
  *n_constants = info.n_constants;
  clave_program_destroy(made);
  clave_program_destroy(program);
  return applied;
}

static void a_norm_that_alone_reads_a_product_is_folded(void **state) {
  (void)state;
  for (product kind = 0; kind < N_PRODUCTS; kind++) {
    for (variant how = 0; how < N_VARIANTS; how++) {
      uint32_t n;
      assert_int_equal(applied_to(kind, how, &n), folded[how]);
      if (folded[how]) assert_int_equal(n, 2); /* the weight and the bias, with any readers */
    }
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_norm_that_alone_reads_a_product_is_folded),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
