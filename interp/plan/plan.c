/* Making schedules: a method's first for the values of its inputs, and what follows one. */
#include "interp/plan/plan.h"

#include <stdlib.h>
#include <string.h>

#include "interp/plan/operands.h"
#include "interp/plan/part.h"
#include "interp/plan/planner.h"
#include "interp/scalar.h"

static clave_status set_given_types(planner *l) {
  const ir_arguments *inputs = &l->g->method->inputs;
  const uint32_t state = first_state(l->x->prog);
  for (uint32_t i = 0; i < l->x->prog->ir.n_state; i++) TRY(resolve_type(l, state + i));
  for (uint32_t i = 0; i < inputs->count; i++)
    if (inputs->items[i].tensor != IR_NONE) TRY(resolve_type(l, inputs->items[i].tensor));
  return NULL;
}

static clave_status make_first(planner *l, const schedule_key *k) {
  TRY(schedule_create(l->x->prog, &l->x->devices, k->values, &l->p));
  l->p->is_lean = k->is_lean;
  l->p->from = (cursor){.end = l->g->n, .control = NO_INDEX};
  clave_status st = set_given_types(l);
  if (!st) st = plan_part(l);
  if (st) schedule_destroy(l->p);
  return st;
}

static clave_status set_item(planner *l, const schedule_key *k) {
  uint32_t at = k->before->reads, out = ((const ir_item *)l->g->instructions[at].op)->out;
  l->p->item = *k->item;
  clave_status st =
      scalar_set(&l->x->prog->ir, out, *k->item, l->p->values, "the value of an item");
  return while_in_node(st, l->g, at);
}

static void enter_late_body(planner *l, const schedule_key *k) {
  const location *now = k->before->controls[k->from.control]->now;
  memcpy(l->p->now, now, slot_count(l->x->prog) * sizeof *now);
}

static clave_status make_next(planner *l, const schedule_key *k) {
  TRY(schedule_extend(k->before, &l->p));
  clave_status st = NULL;
  l->p->is_lean = k->before->is_lean;
  l->p->from = k->from;
  if (k->item) {
    st = set_item(l, k);
  } else {
    enter_late_body(l, k);
  }
  if (!st) st = plan_part(l);
  if (st) schedule_destroy(l->p);
  return st;
}

static clave_status init_planner(planner *l, const executable *x, uint32_t index) {
  *l = (planner){.x = x, .m = &x->methods[index], .g = &x->methods[index].g};
  l->operands = malloc((slot_count(x->prog) + (size_t)2) * sizeof *l->operands);
  l->keeps_bf16 = calloc(slot_count(x->prog) + (size_t)1, sizeof *l->keeps_bf16);
  return l->operands && l->keeps_bf16 ? NULL : status_no_memory();
}

clave_status plan_schedule(const executable *x, uint32_t index, const schedule_key *k,
                           schedule **out) {
  planner l;
  *out = NULL;
  clave_status st = init_planner(&l, x, index);
  if (!st) st = k->values ? make_first(&l, k) : make_next(&l, k);
  free(l.operands);
  free(l.keeps_bf16);
  if (!st) *out = l.p;
  return st;
}
