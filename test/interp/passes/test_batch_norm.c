/* Batch norms are folded into the product before them, and stay where that would change what
 * something else reads. */
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

/* What keeps a norm, or lets two of them share what they become. */
typedef enum variant {
  PLAIN,         /* one product, one norm: folded */
  SYMBOLIC,      /* of any batch: folded */
  TWO_SAME,      /* two products of one weight under one norm: both folded, to one weight */
  READ_OUTSIDE,  /* the product's result is an output too */
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

static bool is_matrix(const building *g) { return g->kind >= LINEAR; }

static clave_id slot(const building *g, clave_slot_kind kind, const char *name, int64_t channels,
                     int64_t side) {
  const int64_t dims[] = {BATCH, channels, side, side};
  const clave_id values[] = {g->how == SYMBOLIC ? g->batch : 0, 0, 0, 0};
  return clave_builder_tensor(g->b, kind, name, CLAVE_F32, is_matrix(g) ? 2 : 4, dims, values);
}

static clave_id constant(const building *g, const char *name, int rank, const int64_t *dims,
                         double low) {
  float data[MOST];
  int64_t n = 1;
  for (int i = 0; i < rank; i++) n *= dims[i];
  for (int64_t i = 0; i < n; i++) data[i] = (float)(low + 1 + sin(1.3 * (double)i));
  clave_tensor t = clave_tensor_make(CLAVE_F32, rank, dims, data);
  return clave_builder_constant(g->b, name, &t, true);
}

static clave_id vector(const building *g, const char *name, double low) {
  return constant(g, name, 1, (const int64_t[]){OUT}, low);
}

static clave_id weight_of(const building *g) {
  static const int64_t dims[N_PRODUCTS][4] = {[CONV] = {OUT, IN, 3, 3},
                                              [CONV_BIAS] = {OUT, IN, 3, 3},
                                              [CONV_GROUPS] = {OUT, IN / 2, 3, 3},
                                              [TRANSPOSED] = {IN, OUT / 2, 3, 3},
                                              [LINEAR] = {OUT, IN},
                                              [COLUMNS] = {IN, OUT}};
  return constant(g, "weight", is_matrix(g) ? 2 : 4, dims[g->kind], -0.9);
}

static void set_conv(const building *g) {
  const int32_t one[] = {1, 1}, none[] = {0, 0};
  clave_builder_set_tensor(g->b, "x", g->x);
  clave_builder_set_tensor(g->b, "weight", g->weight);
  clave_builder_set_ints(g->b, "stride", one, 2);
  clave_builder_set_ints(g->b, "padding", g->kind == TRANSPOSED ? one : none, 2);
  clave_builder_set_ints(g->b, "dilation", one, 2);
  if (g->kind == TRANSPOSED) clave_builder_set_ints(g->b, "output_padding", none, 2);
  clave_builder_set_int(g->b, "groups", g->kind == CONV_GROUPS || g->kind == TRANSPOSED ? 2 : 1);
}

static clave_id turned(const building *g) {
  const int64_t dims[] = {IN, OUT};
  clave_id out = clave_builder_tensor(g->b, CLAVE_SLOT_TEMPORARY, "", CLAVE_F32, 2, dims, NULL);
  clave_builder_op(g->b, "Permute", "turned");
  clave_builder_set_tensor(g->b, "x", g->weight);
  clave_builder_set_ints(g->b, "dims", (const int32_t[]){1, 0}, 2);
  clave_builder_set_tensor(g->b, "out", out);
  return out;
}

static void set_matmul(const building *g, clave_id b) {
  clave_builder_set_tensor(g->b, "a", g->x);
  clave_builder_set_tensor(g->b, "b", b);
  clave_builder_set_float(g->b, "alpha", 0.5);
  clave_builder_set_float(g->b, "beta", -2);
}

/* (2, 6, 3, 3); of the transposed convolution (2, 6, 5, 5), of matrices (2, 6). */
static int64_t out_side(const building *g) { return g->kind == TRANSPOSED ? SIDE : SIDE - 2; }

static clave_id add_product(building *g) {
  clave_id out = slot(g, CLAVE_SLOT_TEMPORARY, "", OUT, out_side(g));
  clave_id b = g->kind == LINEAR ? turned(g) : g->weight;
  clave_builder_op(g->b,
                   is_matrix(g)            ? "Matmul"
                   : g->kind == TRANSPOSED ? "ConvTranspose"
                                           : "Conv",
                   "product");
  if (is_matrix(g)) {
    set_matmul(g, b);
  } else {
    set_conv(g);
  }
  if (g->kind != CONV) clave_builder_set_tensor(g->b, "bias", g->bias);
  clave_builder_set_tensor(g->b, "out", out);
  return out;
}

static clave_id output(building *g) {
  char name[8] = {'y', (char)('0' + g->n_outputs++), 0};
  clave_id y = slot(g, CLAVE_SLOT_OUTPUT, name, OUT, out_side(g));
  clave_builder_output(g->b, name, y);
  return y;
}

static void add_norm(building *g, clave_id x) {
  static const char *const fields[] = {"weight", "bias", "mean", "var"};
  clave_id y = output(g);
  clave_builder_op(g->b, "BatchNorm", "norm");
  clave_builder_set_tensor(g->b, "x", x);
  for (int i = g->kind == COLUMNS ? 2 : 0; i < 4; i++)
    clave_builder_set_tensor(g->b, fields[i], g->norm[i]);
  clave_builder_set_float(g->b, "eps", 0.01);
  clave_builder_set_tensor(g->b, "out", y);
}

static void add_abs(building *g, clave_id x) {
  const clave_operand o = {.source = CLAVE_OPERAND_INPUT};
  clave_id y = output(g);
  clave_builder_op(g->b, "Elementwise", "abs");
  clave_builder_set_tensors(g->b, "inputs", &x, 1);
  clave_builder_step(g->b, "abs", CLAVE_F32, &o, 1);
  clave_builder_set_tensor(g->b, "out", y);
}

static void add_operands(building *g) {
  const int64_t channels[] = {OUT};
  if (g->how == SYMBOLIC) g->batch = clave_builder_value(g->b, "batch", CLAVE_I64, 1, 8);
  g->x = slot(g, CLAVE_SLOT_INPUT, "x", IN, SIDE);
  g->weight = weight_of(g);
  g->bias = vector(g, "bias", -0.5);
  g->norm[0] = vector(g, "scale", -0.7);
  g->norm[1] = vector(g, "shift", -1);
  g->norm[2] = vector(g, "mean", -1.2);
  g->norm[3] = g->how == COMPUTED ? clave_builder_tensor(g->b, CLAVE_SLOT_INPUT, "var", CLAVE_F32,
                                                         1, channels, NULL)
                                  : vector(g, "var", g->how == NO_NUMBER ? -0.5 : 0.1);
}

static clave_program *build(product kind, variant how) {
  building g = {.kind = kind, .how = how};
  clave_program *p;
  good(clave_builder_create(&g.b));
  add_operands(&g);
  clave_builder_method(g.b, "forward");
  clave_builder_input(g.b, "x", g.x);
  if (how == COMPUTED) clave_builder_input(g.b, "var", g.norm[3]);
  clave_id product = add_product(&g);
  add_norm(&g, product);
  if (how == READ_OUTSIDE) add_abs(&g, product);
  if (how == TWO_SAME) add_norm(&g, add_product(&g));
  if (how == WEIGHT_SHARED) add_abs(&g, add_product(&g));
  good(clave_builder_finish(g.b, &p));
  clave_builder_destroy(g.b);
  return p;
}

/* ---------------------------------------------------------------- runs */

/* All outputs, one behind the other; how many numbers. */
static size_t run(clave_program *p, product kind, int64_t batch, float *out) {
  static float x[MOST], var[OUT] = {1, 2, 0.5F, 3, 4, 0.25F};
  const int64_t dims[] = {batch, IN, SIDE, SIDE}, channels[] = {OUT};
  clave_tensor in = clave_tensor_make(CLAVE_F32, kind >= LINEAR ? 2 : 4, dims, x),
               of_var = clave_tensor_make(CLAVE_F32, 1, channels, var), y;
  clave_method_info m = {.size = sizeof m};
  clave_device *device;
  clave_session *s;
  size_t n = 0;
  for (int i = 0; i < MOST; i++) x[i] = (float)sin(i * 1.7);
  good(clave_program_method(p, 0, &m));
  good(clave_device_open("cpu", NULL, &device));
  good(clave_session_create(p, device, NULL, &s));
  good(clave_session_set_input(s, NULL, 0, &in));
  if (m.n_inputs > 1) good(clave_session_set_input(s, NULL, 1, &of_var));
  good(clave_session_run(s, NULL));
  for (uint32_t k = 0; k < m.n_outputs; k++) {
    size_t numel = 1;
    good(clave_session_output(s, NULL, k, &y));
    for (int i = 0; i < y.rank; i++) numel *= (size_t)y.dims[i];
    assert_true(n + numel <= 2 * MOST);
    memcpy(out + n, y.data, numel * sizeof *out);
    n += numel;
  }
  clave_session_destroy(s);
  clave_device_destroy(device);
  return n;
}

static void same_results(clave_program *a, clave_program *b, product kind, int64_t batch) {
  static float x[2 * MOST], y[2 * MOST];
  size_t n = run(a, kind, batch, x);
  assert_int_equal(run(b, kind, batch, y), n);
  for (size_t i = 0; i < n; i++) {
    assert_int_equal(isnan(x[i]), isnan(y[i]));
    if (!isnan(x[i])) assert_true(fabsf(x[i] - y[i]) <= 1e-5F * (1 + fabsf(x[i])));
  }
}

static void note_applied(void *applied, const clave_pass_info *info) {
  if (info->refused) fail_msg("%s: %s", info->name, info->refused);
  if (strcmp(info->name, "batch_norm") == 0) *(uint32_t *)applied = info->applied;
}

/* How often the pass applied, after checking the numbers. *n_constants: of the new program. */
static uint32_t applied_to(product kind, variant how, uint32_t *n_constants) {
  static const char *const passes[] = {"batch_norm"};
  uint32_t applied = 0;
  clave_program_info info = {.size = sizeof info};
  clave_program *p = build(kind, how), *made;
  clave_optimize_options o = {sizeof o, passes, 1, note_applied, &applied};
  good(clave_program_optimize(p, &o, &made));
  same_results(p, made, kind, BATCH);
  if (how == SYMBOLIC) same_results(p, made, kind, 3);
  good(clave_program_get_info(made, &info));
  *n_constants = info.n_constants;
  clave_program_destroy(made);
  clave_program_destroy(p);
  return applied;
}

static void a_norm_that_alone_reads_a_product_is_folded(void **state) {
  (void)state;
  for (product kind = 0; kind < N_PRODUCTS; kind++) {
    for (variant how = 0; how < N_VARIANTS; how++) {
      uint32_t n;
      assert_int_equal(applied_to(kind, how, &n), folded[how]);
      if (folded[how]) assert_int_equal(n, 2); /* the weight and the bias, however many read them */
    }
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_norm_that_alone_reads_a_product_is_folded),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
