/* Faults in building a program: every kind of call of clave_builder.h.
 *
 *   run_builder_faults alloc [FIRST STEP] */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "clave_builder.h"
#include "test/fault/loop.h"

typedef struct scenario {
  clave_builder *b;
  clave_program *program;
} scenario;

enum { ROWS = 2, COLUMNS = 3, NODES = 6 };
static float table[ROWS * COLUMNS] = {1, 2, 3, 4, 5, 6};

typedef struct slots {
  clave_id rows, x, y, state, table, wide, mean, next, sums[2], bodies[2];
} slots;

static void declare(clave_builder *builder, slots *slots) {
  const int64_t dims[] = {ROWS, COLUMNS}, one[] = {1, 1};
  const clave_tensor tensor = clave_tensor_make(CLAVE_F32, 2, dims, table);
  clave_builder_producer(builder, "a runner");
  clave_builder_metadata(builder, "{}");
  slots->rows = clave_builder_value(builder, "rows", CLAVE_I64, 0, 100);
  slots->x = clave_builder_tensor(builder, CLAVE_SLOT_INPUT, "x", CLAVE_F32, 2, dims,
                                  (const clave_id[]){slots->rows, 0});
  slots->y = clave_builder_tensor(builder, CLAVE_SLOT_OUTPUT, "y", CLAVE_F32, 2, one, NULL);
  slots->state = clave_builder_tensor(builder, CLAVE_SLOT_STATE, "state", CLAVE_F32, 2, dims, NULL);
  slots->table = clave_builder_constant(builder, "table", &tensor, true);
  (void)clave_builder_constant(builder, "borrowed", &tensor, false);
  slots->wide =
      clave_builder_tensor(builder, CLAVE_SLOT_TEMPORARY, "wide", CLAVE_F32, 2, dims, NULL);
  slots->mean =
      clave_builder_tensor(builder, CLAVE_SLOT_TEMPORARY, "mean", CLAVE_F32, 2, one, NULL);
  slots->next =
      clave_builder_tensor(builder, CLAVE_SLOT_TEMPORARY, "next", CLAVE_F32, 2, dims, NULL);
  clave_builder_initial(builder, slots->state, slots->table);
}

static void add_body(clave_builder *builder, slots *slots, int i) {
  const int64_t dims[] = {ROWS, COLUMNS};
  const clave_operand operands[] = {{.index = 0}, {.source = CLAVE_OPERAND_FLOAT, .f = 0.5}};
  slots->sums[i] =
      clave_builder_tensor(builder, CLAVE_SLOT_TEMPORARY, "sum", CLAVE_F32, 2, dims, NULL);
  slots->bodies[i] = clave_builder_body(builder, i ? "less" : "more", NULL, 0);
  clave_builder_op(builder, "Elementwise", "sum");
  clave_builder_set_tensors(builder, "inputs", &slots->state, 1);
  clave_builder_step(builder, i ? "sub" : "add", CLAVE_F32, operands, 2);
  clave_builder_set_tensor(builder, "out", slots->sums[i]);
  clave_builder_end_body(builder, &slots->sums[i], 1);
}

static void add_choice(clave_builder *builder, slots *slots) {
  clave_id many = clave_builder_value(builder, "many", CLAVE_BOOL, INT64_MIN, INT64_MAX);
  clave_builder_op(builder, "Scalar", "many");
  clave_builder_set_text(builder, "kind", "gt");
  clave_builder_set_value(builder, "a", slots->rows);
  clave_builder_set_float(builder, "b", 1);
  clave_builder_set_value(builder, "out", many);
  for (int i = 0; i < 2; i++) add_body(builder, slots, i);
  clave_builder_op(builder, "If", "choice");
  clave_builder_set_value(builder, "condition", many);
  clave_builder_set_body(builder, "then_chain", slots->bodies[0]);
  clave_builder_set_body(builder, "else_chain", slots->bodies[1]);
  clave_builder_set_tensors(builder, "results", &slots->next, 1);
  clave_builder_update(builder, slots->state, slots->next);
}

static void add_means(clave_builder *builder, const slots *slots) {
  const int64_t dims[] = {ROWS, COLUMNS};
  clave_builder_op(builder, "Expand", "wide");
  clave_builder_set_tensor(builder, "x", slots->table);
  clave_builder_set_sizes(builder, "shape", dims, NULL, 2);
  clave_builder_set_tensor(builder, "out", slots->wide);
  clave_builder_op(builder, "Reduce", "mean");
  clave_builder_set_text(builder, "kind", "mean");
  clave_builder_set_tensor(builder, "x", slots->wide);
  clave_builder_set_ints(builder, "axes", (const int32_t[]){0, 1}, 2);
  clave_builder_set_bool(builder, "keepdim", true);
  clave_builder_set_tensor(builder, "out", slots->mean);
  clave_builder_op(builder, "Softmax", "y");
  clave_builder_set_tensor(builder, "x", slots->mean);
  clave_builder_set_int(builder, "axis", 1);
  clave_builder_set_tensor(builder, "out", slots->y);
}

static clave_status build(void *ctx) {
  scenario *scenario = ctx;
  slots slots;
  TRY(clave_builder_create(&scenario->b));
  declare(scenario->b, &slots);
  clave_builder_method(scenario->b, "forward");
  clave_builder_method_metadata(scenario->b, "{}");
  clave_builder_input(scenario->b, "x", slots.x);
  add_choice(scenario->b, &slots);
  add_means(scenario->b, &slots);
  clave_builder_output(scenario->b, "y", slots.y);
  return clave_builder_finish(scenario->b, &scenario->program);
}

static const char *check_scenario(void *ctx) {
  const scenario *scenario = ctx;
  clave_method_info info = {.size = sizeof info};
  clave_program_info program_info = {.size = sizeof program_info};
  clave_status st = clave_program_get_info(scenario->program, &program_info);
  if (!st) st = clave_program_method(scenario->program, 0, &info);
  if (st) return "no info";
  if (strcmp(program_info.producer, "a runner") != 0 || program_info.n_constants != 2)
    return "the program is another";
  return info.n_nodes == NODES + 1 ? NULL : "nodes are missing";
}

/* Does nothing: after an error there is no program, and the builder can only be destroyed. */
static clave_status resume(void *ctx) {
  const scenario *scenario = ctx;
  if (scenario->program) abort();
  return NULL;
}

static void end_scenario(void *ctx) {
  scenario *alive = ctx;
  clave_program_destroy(alive->program);
  clave_builder_destroy(alive->b);
  *alive = (scenario){0};
}

int main(int argc, char **argv) {
  if (argc < 2) {
    fprintf(stderr, "usage: run_builder_faults alloc [FIRST STEP]\n");
    return 2;
  }
  scenario scenario = {0};
  const fault_test test = {&scenario, build, check_scenario, resume, end_scenario};
  return fault_loop(&test, argv[1], argc > 2 ? atol(argv[2]) : 0, argc > 3 ? atol(argv[3]) : 1);
}
