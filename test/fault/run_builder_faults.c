/* Faults in building a program: every kind of call of clave_builder.h.
 *
 *   run_builder_faults alloc [FIRST STEP] */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "clave_builder.h"
#include "test/fault/loop.h"

typedef struct life {
  clave_builder *b;
  clave_program *program;
} life;

enum { ROWS = 2, COLUMNS = 3, NODES = 6 };
static float table[ROWS * COLUMNS] = {1, 2, 3, 4, 5, 6};

typedef struct slots {
  clave_id rows, x, y, state, table, wide, mean, next, sums[2], bodies[2];
} slots;

static void declare(clave_builder *b, slots *s) {
  const int64_t dims[] = {ROWS, COLUMNS}, one[] = {1, 1};
  const clave_tensor t = clave_tensor_make(CLAVE_F32, 2, dims, table);
  clave_builder_producer(b, "a runner");
  clave_builder_metadata(b, "{}");
  s->rows = clave_builder_value(b, "rows", CLAVE_I64, 0, 100);
  s->x = clave_builder_tensor(b, CLAVE_SLOT_INPUT, "x", CLAVE_F32, 2, dims,
                              (const clave_id[]){s->rows, 0});
  s->y = clave_builder_tensor(b, CLAVE_SLOT_OUTPUT, "y", CLAVE_F32, 2, one, NULL);
  s->state = clave_builder_tensor(b, CLAVE_SLOT_STATE, "state", CLAVE_F32, 2, dims, NULL);
  s->table = clave_builder_constant(b, "table", &t, true);
  (void)clave_builder_constant(b, "borrowed", &t, false);
  s->wide = clave_builder_tensor(b, CLAVE_SLOT_TEMPORARY, "wide", CLAVE_F32, 2, dims, NULL);
  s->mean = clave_builder_tensor(b, CLAVE_SLOT_TEMPORARY, "mean", CLAVE_F32, 2, one, NULL);
  s->next = clave_builder_tensor(b, CLAVE_SLOT_TEMPORARY, "next", CLAVE_F32, 2, dims, NULL);
  clave_builder_initial(b, s->state, s->table);
}

static void add_body(clave_builder *b, slots *s, int i) {
  const int64_t dims[] = {ROWS, COLUMNS};
  const clave_operand operands[] = {{.index = 0}, {.source = CLAVE_OPERAND_FLOAT, .f = 0.5}};
  s->sums[i] = clave_builder_tensor(b, CLAVE_SLOT_TEMPORARY, "sum", CLAVE_F32, 2, dims, NULL);
  s->bodies[i] = clave_builder_body(b, i ? "less" : "more", NULL, 0);
  clave_builder_op(b, "Elementwise", "sum");
  clave_builder_set_tensors(b, "inputs", &s->state, 1);
  clave_builder_step(b, i ? "sub" : "add", CLAVE_F32, operands, 2);
  clave_builder_set_tensor(b, "out", s->sums[i]);
  clave_builder_end_body(b, &s->sums[i], 1);
}

static void add_choice(clave_builder *b, slots *s) {
  clave_id many = clave_builder_value(b, "many", CLAVE_BOOL, INT64_MIN, INT64_MAX);
  clave_builder_op(b, "Scalar", "many");
  clave_builder_set_text(b, "kind", "gt");
  clave_builder_set_value(b, "a", s->rows);
  clave_builder_set_float(b, "b", 1);
  clave_builder_set_value(b, "out", many);
  for (int i = 0; i < 2; i++) add_body(b, s, i);
  clave_builder_op(b, "If", "choice");
  clave_builder_set_value(b, "condition", many);
  clave_builder_set_body(b, "then_chain", s->bodies[0]);
  clave_builder_set_body(b, "else_chain", s->bodies[1]);
  clave_builder_set_tensors(b, "results", &s->next, 1);
  clave_builder_update(b, s->state, s->next);
}

static void add_means(clave_builder *b, const slots *s) {
  const int64_t dims[] = {ROWS, COLUMNS};
  clave_builder_op(b, "Expand", "wide");
  clave_builder_set_tensor(b, "x", s->table);
  clave_builder_set_sizes(b, "shape", dims, NULL, 2);
  clave_builder_set_tensor(b, "out", s->wide);
  clave_builder_op(b, "Reduce", "mean");
  clave_builder_set_text(b, "kind", "mean");
  clave_builder_set_tensor(b, "x", s->wide);
  clave_builder_set_ints(b, "axes", (const int32_t[]){0, 1}, 2);
  clave_builder_set_bool(b, "keepdim", true);
  clave_builder_set_tensor(b, "out", s->mean);
  clave_builder_op(b, "Softmax", "y");
  clave_builder_set_tensor(b, "x", s->mean);
  clave_builder_set_int(b, "axis", 1);
  clave_builder_set_tensor(b, "out", s->y);
}

static clave_status build(void *ctx) {
  life *l = ctx;
  slots s;
  TRY(clave_builder_create(&l->b));
  declare(l->b, &s);
  clave_builder_method(l->b, "forward");
  clave_builder_method_metadata(l->b, "{}");
  clave_builder_input(l->b, "x", s.x);
  add_choice(l->b, &s);
  add_means(l->b, &s);
  clave_builder_output(l->b, "y", s.y);
  return clave_builder_finish(l->b, &l->program);
}

static const char *wrong_life(void *ctx) {
  const life *l = ctx;
  clave_method_info m = {.size = sizeof m};
  clave_program_info p = {.size = sizeof p};
  clave_status st = clave_program_get_info(l->program, &p);
  if (!st) st = clave_program_method(l->program, 0, &m);
  if (st) return "no info";
  if (strcmp(p.producer, "a runner") != 0 || p.n_constants != 2) return "the program is another";
  return m.n_nodes == NODES + 1 ? NULL : "nodes are missing";
}

/* After an error a builder is to be destroyed only, and says why. */
static clave_status resume(void *ctx) {
  const life *l = ctx;
  if (l->program) abort();
  return NULL;
}

static void end_life(void *ctx) {
  life *l = ctx;
  clave_program_destroy(l->program);
  clave_builder_destroy(l->b);
  *l = (life){0};
}

int main(int argc, char **argv) {
  if (argc < 2) {
    fprintf(stderr, "usage: run_builder_faults alloc [FIRST STEP]\n");
    return 2;
  }
  life l = {0};
  const fault_test test = {&l, build, wrong_life, resume, end_life};
  return fault_loop(&test, argv[1], argc > 2 ? atol(argv[2]) : 0, argc > 3 ? atol(argv[3]) : 1);
}
