/* Makes schedules: the first one of a method, for the values of its inputs, and the following
 * ones. */
#include "interp/plan/plan.h"

#include <stdlib.h>
#include <string.h>

#include "interp/plan/operands.h"
#include "interp/plan/planner.h"
#include "interp/plan/segment.h"
#include "interp/scalar.h"

static clave_status set_given_types(planner *planner) {
  const ir_arguments *inputs = &planner->graph->method->inputs;
  const uint32_t state = first_state(planner->executable->prog);
  for (uint32_t i = 0; i < planner->executable->prog->ir.n_state; i++)
    TRY(resolve_type(planner, state + i));
  for (uint32_t i = 0; i < inputs->count; i++)
    if (inputs->items[i].tensor != IR_NONE) TRY(resolve_type(planner, inputs->items[i].tensor));
  return NULL;
}

static clave_status make_first(planner *planner, const schedule_key *key) {
  TRY(schedule_create(planner->executable->prog, &planner->executable->devices, key->values,
                      &planner->schedule));
  planner->schedule->low_memory = key->low_memory;
  planner->schedule->from = (cursor){.end = planner->graph->n, .control = NO_INDEX};
  clave_status st = set_given_types(planner);
  if (!st) st = plan_segment(planner);
  if (st) schedule_destroy(planner->schedule);
  return st;
}

static clave_status set_item(planner *planner, const schedule_key *key) {
  uint32_t at = key->before->reads,
           out = ((const ir_item *)planner->graph->instructions[at].op)->out;
  planner->schedule->item = *key->item;
  clave_status st = scalar_set(&planner->executable->prog->ir, out, *key->item,
                               planner->schedule->values, "the value that an item op reads");
  return while_in_node(st, planner->graph, at);
}

static void restore_locations(planner *planner, const schedule_key *key) {
  const location *now = key->before->controls[key->from.control]->now;
  memcpy(planner->schedule->now, now, slot_count(planner->executable->prog) * sizeof *now);
}

static clave_status make_next(planner *planner, const schedule_key *key) {
  TRY(schedule_extend(key->before, &planner->schedule));
  clave_status st = NULL;
  planner->schedule->low_memory = key->before->low_memory;
  planner->schedule->from = key->from;
  if (key->item) {
    st = set_item(planner, key);
  } else {
    restore_locations(planner, key);
  }
  if (!st) st = plan_segment(planner);
  if (st) schedule_destroy(planner->schedule);
  return st;
}

static clave_status init_planner(planner *plan, const executable *executable, uint32_t index) {
  *plan = (planner){.executable = executable,
                    .method = &executable->methods[index],
                    .graph = &executable->methods[index].graph};
  plan->operands = malloc((slot_count(executable->prog) + (size_t)2) * sizeof *plan->operands);
  plan->keeps_bf16 = calloc(slot_count(executable->prog) + (size_t)1, sizeof *plan->keeps_bf16);
  plan->where = malloc(plan->graph->n + (size_t)1);
  if (!plan->operands || !plan->keeps_bf16 || !plan->where) return status_no_memory();
  memcpy(plan->where, plan->method->where, plan->graph->n);
  return NULL;
}

clave_status plan_schedule(const executable *executable, uint32_t index, const schedule_key *key,
                           schedule **out) {
  planner planner;
  *out = NULL;
  clave_status st = init_planner(&planner, executable, index);
  if (!st) st = key->values ? make_first(&planner, key) : make_next(&planner, key);
  free(planner.operands);
  free(planner.where);
  free(planner.keeps_bf16);
  if (!st) *out = planner.schedule;
  return st;
}
