/* Rotary embeddings that are written out are replaced by Rope, with the same results; near misses
 * stay unchanged. */
#include <math.h>

#include "api/expect.h"
#include "clave_builder.h"

enum { B = 2, H = 3, L = 5, D = 6, N = B * H * L * D };

/* A rotary embedding of q, written out in one of these ways. */
typedef enum spelling { BY_HALVES, BY_PAIRS, PARTS_OF_HALVES, N_SPELLINGS } spelling;

/* Deviations that make it no rotary embedding. */
typedef enum fault { NO_FAULT, UNEVEN_TABLE, SIGN, ORDER, READ_OUTSIDE, N_FAULTS } fault;

/* ---------------------------------------------------------------- programs */

typedef struct building {
  clave_builder *b;
  spelling how;
  fault wrong;
} building;

static clave_id temporary(clave_builder *builder, int rank, const int64_t *dims) {
  return clave_builder_tensor(builder, CLAVE_SLOT_TEMPORARY, "", CLAVE_F32, rank, dims, NULL);
}

/* Adds kind(x, y), or kind(x) without y, as a tensor with a last axis of `last`; out: 0 for a new
 * tensor. */
static clave_id steps(clave_builder *builder, const char *kind, clave_id x, clave_id y,
                      int64_t last, clave_id out) {
  const clave_id inputs[] = {x, y};
  const clave_operand operands[] = {{.source = CLAVE_OPERAND_INPUT},
                                    {.source = CLAVE_OPERAND_INPUT, .index = 1}};
  if (!out) out = temporary(builder, 4, (const int64_t[]){B, H, L, last});
  clave_builder_op(builder, "Elementwise", kind);
  clave_builder_set_tensors(builder, "inputs", inputs, y ? 2 : 1);
  clave_builder_step(builder, kind, CLAVE_F32, operands, y ? 2 : 1);
  clave_builder_set_tensor(builder, "out", out);
  return out;
}

/* Adds a slice: D / 2 elements of x's last axis, every step-th from `start` on. */
static clave_id slice(clave_builder *builder, clave_id x, int64_t start, int64_t step) {
  clave_id out = temporary(builder, 4, (const int64_t[]){B, H, L, D / 2});
  clave_builder_op(builder, "Slice", "slice");
  clave_builder_set_tensor(builder, "x", x);
  clave_builder_set_int(builder, "axis", 3);
  clave_builder_set_int(builder, "start", start);
  clave_builder_set_int(builder, "stop", step == 1 ? start + D / 2 : D);
  clave_builder_set_int(builder, "step", step);
  clave_builder_set_tensor(builder, "out", out);
  return out;
}

static clave_id reshape(clave_builder *builder, clave_id x, int rank, const int64_t *dims) {
  clave_id out = temporary(builder, rank, dims);
  clave_builder_op(builder, "Reshape", "reshape");
  clave_builder_set_tensor(builder, "x", x);
  clave_builder_set_sizes(builder, "shape", dims, NULL, (uint32_t)rank);
  clave_builder_set_tensor(builder, "out", out);
  return out;
}

static clave_id cat(clave_builder *builder, clave_id first, clave_id second, int axis,
                    clave_id out) {
  const clave_id xs[] = {first, second};
  clave_builder_op(builder, "Cat", "cat");
  clave_builder_set_tensors(builder, "xs", xs, 2);
  clave_builder_set_int(builder, "axis", axis);
  clave_builder_set_tensor(builder, "out", out);
  return out;
}

/* Adds a table (L, D), or (L, D / 2) in which each number occurs once. */
static clave_id table(const building *building, const char *name, double (*f)(double),
                      bool doubled) {
  static float data[L * D];
  int width = doubled ? D : D / 2;
  for (int i = 0; i < L * width; i++) {
    int column = building->how == BY_PAIRS ? i % width / 2 : i % width % (D / 2);
    data[i] = (float)f(i / width * (column + 1) * 0.3);
  }
  if (building->wrong == UNEVEN_TABLE) data[L * width - 1] += 0.25F;
  clave_tensor tensor = clave_tensor_make(CLAVE_F32, 2, (const int64_t[]){L, width}, data);
  return clave_builder_constant(building->b, name, &tensor, true);
}

/* Joins two parts of q, one after the other, or interleaved. */
static clave_id join(const building *building, clave_id first, clave_id second, clave_id out) {
  const int64_t whole[] = {B, H, L, D}, pairs[] = {B, H, L, D / 2, 2}, ones[] = {B, H, L, D / 2, 1};
  if (building->how != BY_PAIRS)
    return cat(building->b, first, second, 3, out ? out : temporary(building->b, 4, whole));
  first = reshape(building->b, first, 5, ones);
  second = reshape(building->b, second, 5, ones);
  return reshape(building->b, cat(building->b, first, second, 4, temporary(building->b, 5, pairs)),
                 4, whole);
}

/* Adds q cos + rotated(q) sin and returns the rotated part. */
static clave_id write_sum(const building *building, clave_id q, clave_id a, clave_id b,
                          clave_id y) {
  clave_id cos_table = table(building, "cos", cos, true),
           sin_table = table(building, "sin", sin, true);
  clave_id first = building->wrong == ORDER ? b : a, second = building->wrong == ORDER ? a : b;
  clave_id minus =
      building->wrong == SIGN ? second : steps(building->b, "neg", second, 0, D / 2, 0);
  clave_id rotated = join(building, minus, first, 0);
  clave_id plain = steps(building->b, "mul", q, cos_table, D, 0);
  clave_id turned = steps(building->b, "mul", sin_table, rotated, D, 0);
  steps(building->b, "add", turned, plain, D, y);
  return rotated;
}

/* Adds (a cos - b sin, b cos + a sin) and returns the first part. */
static clave_id write_parts(const building *building, clave_id a, clave_id b, clave_id y) {
  clave_id cos_table = table(building, "cos", cos, false),
           sin_table = table(building, "sin", sin, false);
  clave_id first = building->wrong == ORDER ? b : a, second = building->wrong == ORDER ? a : b;
  clave_id products[] = {steps(building->b, "mul", first, cos_table, D / 2, 0),
                         steps(building->b, "mul", second, sin_table, D / 2, 0),
                         steps(building->b, "mul", second, cos_table, D / 2, 0),
                         steps(building->b, "mul", first, sin_table, D / 2, 0)};
  const char *const kinds[] = {building->wrong == SIGN ? "add" : "sub",
                               building->wrong == SIGN ? "sub" : "add"};
  clave_id real = steps(building->b, kinds[0], products[0], products[1], D / 2, 0);
  join(building, real, steps(building->b, kinds[1], products[2], products[3], D / 2, 0), y);
  return real;
}

static clave_program *build(spelling how, fault wrong) {
  const int64_t shape[] = {B, H, L, D};
  building building = {.how = how, .wrong = wrong};
  clave_program *program;
  good(clave_builder_create(&building.b));
  clave_id q = clave_builder_tensor(building.b, CLAVE_SLOT_INPUT, "q", CLAVE_F32, 4, shape, NULL);
  clave_id y = clave_builder_tensor(building.b, CLAVE_SLOT_OUTPUT, "y", CLAVE_F32, 4, shape, NULL);
  clave_builder_method(building.b, "forward");
  clave_builder_input(building.b, "q", q);
  clave_id a = slice(building.b, q, 0, how == BY_PAIRS ? 2 : 1);
  clave_id b = slice(building.b, q, how == BY_PAIRS ? 1 : D / 2, how == BY_PAIRS ? 2 : 1);
  clave_id inner =
      how == PARTS_OF_HALVES ? write_parts(&building, a, b, y) : write_sum(&building, q, a, b, y);
  clave_builder_output(building.b, "y", y);
  if (wrong == READ_OUTSIDE) {
    const int64_t dims[] = {B, H, L, how == PARTS_OF_HALVES ? D / 2 : D};
    clave_id z = clave_builder_tensor(building.b, CLAVE_SLOT_OUTPUT, "z", CLAVE_F32, 4, dims, NULL);
    clave_builder_output(building.b, "z", steps(building.b, "exp", inner, 0, 0, z));
  }
  good(clave_builder_finish(building.b, &program));
  clave_builder_destroy(building.b);
  return program;
}

/* ---------------------------------------------------------------- runs */

static void run(clave_program *program, float out[N]) {
  static float q[N];
  const int64_t dims[] = {B, H, L, D};
  clave_tensor in = clave_tensor_make(CLAVE_F32, 4, dims, q), tensor;
  clave_device *device;
  clave_session *session;
  for (int i = 0; i < N; i++) q[i] = (float)sin(i * 1.7);
  good(clave_device_open("cpu", NULL, &device));
  good(clave_session_create(program, device, NULL, &session));
  good(clave_session_set_input(session, NULL, 0, &in));
  good(clave_session_run(session, NULL));
  good(clave_session_output(session, NULL, 0, &tensor));
  memcpy(out, tensor.data, N * sizeof *out);
  clave_session_destroy(session);
  clave_device_destroy(device);
}

static void note_applied(void *applied, const clave_pass_info *info) {
  if (info->refused) print_error("%s: %s\n", info->name, info->refused);
  if (strcmp(info->name, "rope") == 0) *(uint32_t *)applied = info->applied;
}

/* Checks that the results are the same and returns how often the pass was applied. */
static uint32_t applied_to(spelling how, fault wrong) {
  static float before[N], after[N];
  static const char *const passes[] = {"rope"};
  uint32_t applied = 0;
  clave_program *program = build(how, wrong), *made;
  clave_optimize_options options = {sizeof options, passes, 1, note_applied, &applied};
  good(clave_program_optimize(program, &options, &made));
  run(program, before);
  run(made, after);
  for (int i = 0; i < N; i++) assert_true(fabsf(before[i] - after[i]) < 1e-6F);
  clave_program_destroy(made);
  clave_program_destroy(program);
  return applied;
}

static void what_is_written_out_is_found(void **state) {
  (void)state;
  for (spelling how = 0; how < N_SPELLINGS; how++) assert_int_equal(applied_to(how, NO_FAULT), 1);
}

/* If parts are rotated separately, tables have each number once, so any table is accepted. */
static void near_misses_are_left(void **state) {
  (void)state;
  for (spelling how = 0; how < N_SPELLINGS; how++)
    for (fault wrong = NO_FAULT + 1; wrong < N_FAULTS; wrong++)
      assert_int_equal(applied_to(how, wrong), how == PARTS_OF_HALVES && wrong == UNEVEN_TABLE);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(what_is_written_out_is_found),
      cmocka_unit_test(near_misses_are_left),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
