/* Rotary embeddings of adjacent heads are joined into one, with the same bits; near misses stay
 * unchanged. */
#include <math.h>

#include "api/expect.h"
#include "clave_builder.h"

enum { L = 3, D = 4, PARTS = 3, COLUMNS = 6 * D + 4, MOST = 256 };
static const int64_t heads[PARTS] = {3, 2, 1};

typedef enum variant {
  PLAIN,  /* columns, as (L, n_heads, D) */
  TURNED, /* rotated as (n_heads, L, D) */
  BEHIND, /* the last first */
  N_JOINED,
  GAP = N_JOINED, /* two columns separate the first and the second */
  TABLES,         /* the second has other angles */
  SINES,          /* only its sines differ */
  PAIRS,          /* the second turns other pairs */
  ORDER,          /* elements of the second part are in another order */
  STEP,           /* every second column */
  OUTPUT,         /* its result is an output */
  DENSE,          /* a norm reads its result */
  N_VARIANTS
} variant;

typedef struct building {
  clave_builder *b;
  variant how;
  clave_id x, cos, sin, other;
  int n_outputs;
} building;

/* ---------------------------------------------------------------- programs */

static clave_id slot(const building *building, int rank, const int64_t *dims) {
  return clave_builder_tensor(building->b, CLAVE_SLOT_TEMPORARY, "", CLAVE_F32, rank, dims, NULL);
}

static clave_id output(building *building, int64_t n) {
  const char name[] = {'y', (char)('0' + building->n_outputs++), 0};
  clave_id y = clave_builder_tensor(building->b, CLAVE_SLOT_OUTPUT, name, CLAVE_F32, 3,
                                    (const int64_t[]){L, n, D}, NULL);
  clave_builder_output(building->b, name, y);
  return y;
}

static clave_id table(const building *building, const char *name, double phase) {
  float data[L * D / 2];
  for (int i = 0; i < L * D / 2; i++) data[i] = (float)sin(0.7 * i + phase);
  clave_tensor tensor = clave_tensor_make(CLAVE_F32, 2, (const int64_t[]){L, D / 2}, data);
  return clave_builder_constant(building->b, name, &tensor, true);
}

static clave_id reshape(const building *building, clave_id x, int rank, const int64_t *dims) {
  clave_id out = slot(building, rank, dims);
  clave_builder_op(building->b, "Reshape", "reshape");
  clave_builder_set_tensor(building->b, "x", x);
  clave_builder_set_sizes(building->b, "shape", dims, NULL, (uint32_t)rank);
  clave_builder_set_tensor(building->b, "out", out);
  return out;
}

static clave_id permute(const building *building, clave_id x, int rank, const int64_t *dims,
                        const int32_t *order) {
  clave_id out = slot(building, rank, dims);
  clave_builder_op(building->b, "Permute", "permute");
  clave_builder_set_tensor(building->b, "x", x);
  clave_builder_set_ints(building->b, "dims", order, (uint32_t)rank);
  clave_builder_set_tensor(building->b, "out", out);
  return out;
}

static int64_t first_column(const building *building, int part) {
  int64_t at = 0;
  for (int i = 0; i < part; i++) at += heads[i] * D;
  return at + (building->how == GAP && part ? 2 : 0);
}

static clave_id columns(const building *building, int part) {
  int64_t n = heads[part] * D, start = first_column(building, part), step = 1;
  if (building->how == STEP && part == 1) step = 2;
  clave_id out = slot(building, 2, (const int64_t[]){L, n});
  clave_builder_op(building->b, "Slice", "columns");
  clave_builder_set_tensor(building->b, "x", building->x);
  clave_builder_set_int(building->b, "axis", part == 2 ? -1 : 1);
  clave_builder_set_int(building->b, "start", start);
  clave_builder_set_int(building->b, "stop", start + n * step);
  clave_builder_set_int(building->b, "step", step);
  clave_builder_set_tensor(building->b, "out", out);
  return out;
}

/* Returns x (L, n * D) as (L, n, D). */
static clave_id as_heads(const building *building, clave_id x, int64_t n, bool disordered) {
  const int64_t plain[] = {L, n, D}, last[] = {L, D, n}, turned[] = {n, L, D}, one[] = {1, n, L, D},
                back[] = {1, L, n, D};
  if (disordered)
    return permute(building, reshape(building, x, 3, last), 3, plain, (const int32_t[]){0, 2, 1});
  clave_id y = reshape(building, x, 3, plain);
  if (building->how != TURNED) return y;
  y = reshape(building, permute(building, y, 3, turned, (const int32_t[]){1, 0, 2}), 4, one);
  return reshape(building, permute(building, y, 4, back, (const int32_t[]){0, -2, 1, 3}), 3, plain);
}

/* Adds an output that one op computes from x. */
static void add_reader(building *building, const char *op, clave_id x, int64_t n) {
  const clave_operand operand = {.source = CLAVE_OPERAND_INPUT};
  clave_id y = output(building, n);
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

/* A near miss alters only the second of the parts. */
static void add_rope(building *building, int part) {
  int64_t n = heads[part];
  bool is_output = building->how == OUTPUT && part == 1;
  clave_id x = as_heads(building, columns(building, part), n, building->how == ORDER && part == 1);
  clave_id out = is_output ? output(building, n) : slot(building, 3, (const int64_t[]){L, n, D});
  clave_builder_op(building->b, "Rope", "rope");
  clave_builder_set_tensor(building->b, "x", x);
  clave_builder_set_tensor(building->b, "cos",
                           building->how == TABLES && part == 1 ? building->other : building->cos);
  clave_builder_set_tensor(building->b, "sin",
                           building->how == SINES && part == 1 ? building->other : building->sin);
  clave_builder_set_bool(building->b, "interleaved", building->how == PAIRS && part == 1);
  clave_builder_set_tensor(building->b, "out", out);
  if (!is_output)
    add_reader(building, building->how == DENSE && part == 1 ? "RmsNorm" : "Elementwise", out, n);
}

static clave_program *build(variant how) {
  building building = {.how = how};
  clave_program *program;
  good(clave_builder_create(&building.b));
  building.cos = table(&building, "cos", 1);
  building.sin = table(&building, "sin", 0);
  building.other = table(&building, "other", 2);
  building.x = clave_builder_tensor(building.b, CLAVE_SLOT_INPUT, "x", CLAVE_F32, 2,
                                    (const int64_t[]){L, COLUMNS}, NULL);
  clave_builder_method(building.b, "forward");
  clave_builder_input(building.b, "x", building.x);
  for (int i = 0; i < PARTS; i++) add_rope(&building, how == BEHIND ? PARTS - 1 - i : i);
  good(clave_builder_finish(building.b, &program));
  clave_builder_destroy(building.b);
  return program;
}

/* ---------------------------------------------------------------- runs */

/* Copies all outputs, one after the other. */
static size_t run(clave_program *program, float *out) {
  static float x[L * COLUMNS];
  size_t n = 0;
  clave_tensor tensor;
  clave_device *device;
  clave_session *session;
  for (int i = 0; i < L * COLUMNS; i++) x[i] = (float)sin(i * 1.7);
  const clave_tensor in = clave_tensor_make(CLAVE_F32, 2, (const int64_t[]){L, COLUMNS}, x);
  good(clave_device_open("cpu", NULL, &device));
  good(clave_session_create(program, device, NULL, &session));
  good(clave_session_set_input(session, NULL, 0, &in));
  good(clave_session_run(session, NULL));
  for (uint32_t k = 0; k < PARTS; k++) {
    good(clave_session_output(session, NULL, k, &tensor));
    size_t numel = (size_t)(tensor.dims[0] * tensor.dims[1] * tensor.dims[2]);
    assert_true(n + numel <= MOST);
    memcpy(out + n, tensor.data, numel * sizeof *out);
    n += numel;
  }
  clave_session_destroy(session);
  clave_device_destroy(device);
  return n;
}

static uint32_t count_ropes(clave_program *program) {
  clave_method_info info = {.size = sizeof info};
  clave_node_info node = {.size = sizeof node};
  uint32_t n = 0;
  good(clave_program_method(program, 0, &info));
  for (uint32_t i = 0; i < info.n_nodes; i++) {
    good(clave_program_node(program, info.name, i, &node));
    n += strcmp(node.op, "rope") == 0;
  }
  return n;
}

static void note_refused(void *ctx, const clave_pass_info *info) {
  (void)ctx;
  if (info->refused) fail_msg("%s: %s", info->name, info->refused);
}

/* Checks that the results have the same bits and returns the number of Ropes after the pass. */
static uint32_t ropes_of(variant how) {
  static float before[MOST], after[MOST];
  static const char *const passes[] = {"join_rope"};
  clave_program *program = build(how), *made;
  clave_optimize_options options = {sizeof options, passes, 1, note_refused, NULL};
  assert_int_equal(count_ropes(program), PARTS);
  good(clave_program_optimize(program, &options, &made));
  size_t n = run(program, before);
  assert_int_equal(run(made, after), n);
  assert_memory_equal(before, after, n * sizeof *before);
  uint32_t ropes = count_ropes(made);
  clave_program_destroy(made);
  clave_program_destroy(program);
  return ropes;
}

static void heads_side_by_side_are_joined(void **state) {
  (void)state;
  for (variant how = 0; how < N_JOINED; how++) assert_int_equal(ropes_of(how), 1);
}

/* A near miss keeps all three separate, except that a gap after the first leaves the second and the
 * third joined. */
static void near_misses_are_left(void **state) {
  (void)state;
  for (variant how = N_JOINED; how < N_VARIANTS; how++)
    assert_int_equal(ropes_of(how), how == GAP ? 2 : PARTS);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(heads_side_by_side_are_joined),
      cmocka_unit_test(near_misses_are_left),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
