/* Finds the choices of a method: plans it with an executable whose observer sees each node. */
#include "interp/tune/plan.h"

#include <stdlib.h>
#include <string.h>

#include "interp/plan/schedule_cache.h"
#include "interp/run/run.h"

static void free_job(tune_job *job) {
  free(job->operands);
  free(job->values);
  free(job);
}

void tune_free(tuner *tuner) {
  for (tune_job *j = tuner->jobs, *next; j; j = next) {
    next = j->next;
    free_job(j);
  }
  free(tuner->seen);
  executable_destroy(tuner->executable);
}

static uint32_t tune_plan_count_operands(const ir_instruction *ins) {
  uint32_t n = 0;
  for (operand_iter i = operands_of(ins); next_operand(&i);) n++;
  return n;
}

static clave_status copy_job(tuner *tuner, int on, const node *node) {
  size_t n_values = tuner->session->prog->ir.values.count;
  tune_job *job = calloc(1, sizeof *job);
  if (!job) return status_no_memory();
  job->backend = on;
  job->instruction = node->instruction;
  job->operands =
      calloc((size_t)tune_plan_count_operands(node->instruction) + 1, sizeof *job->operands);
  job->values = calloc(n_values + 1, sizeof *job->values);
  if (!job->operands || !job->values) {
    free_job(job);
    return status_no_memory();
  }
  for (operand_iter i = operands_of(node->instruction); next_operand(&i);)
    job->operands[job->n++] = node->tensors[i.operand.tid];
  if (n_values) memcpy(job->values, node->values, n_values * sizeof *job->values);
  *tuner->last = job;
  tuner->last = &job->next;
  return NULL;
}

seen_choice *tune_find_seen(const tuner *tuner, const variant_choice *choice) {
  for (size_t i = 0; i < tuner->n_seen; i++)
    if (strcmp(tuner->seen[i].family, choice->family) == 0 &&
        strcmp(tuner->seen[i].key, choice->key) == 0)
      return &tuner->seen[i];
  return NULL;
}

clave_status tune_add_seen(tuner *tuner, const variant_choice *choice) {
  if (!array_reserve(&tuner->seen, &tuner->cap_seen, tuner->n_seen + 1, sizeof *tuner->seen))
    return status_no_memory();
  seen_choice *seen = &tuner->seen[tuner->n_seen++];
  memcpy(seen->family, choice->family, sizeof seen->family);
  memcpy(seen->key, choice->key, sizeof seen->key);
  seen->is_settled = false;
  return NULL;
}

/* Adds the node's choices that were not seen before and have several variants. Sets *any if there
 * is one. */
static clave_status add_choices(tuner *tuner, const variant_choices *choices, bool *any) {
  for (int i = 0; i < choices->n; i++) {
    if (choices->items[i].n < 2 || tune_find_seen(tuner, &choices->items[i])) continue;
    TRY(tune_add_seen(tuner, &choices->items[i]));
    *any = true;
  }
  return NULL;
}

/* The tuner's plan_observer. */
static clave_status observe_node(void *ctx, int on, const node *op_node) {
  tuner *tuner = ctx;
  const backend_vtable *vt = tuner->session->devices.backends[on]->vt;
  variant_choices *choices = calloc(1, sizeof *choices);
  recording *recording = NULL;
  bool any = false;
  node own = *op_node;
  if (!choices) return status_no_memory();
  own.choices = choices;
  clave_status st = vt->record(tuner->session->devices.backends[on], &own,
                               tuner->executable->options.fast, &recording);
  vt->recording_destroy(tuner->session->devices.backends[on], recording);
  if (!st) st = add_choices(tuner, choices, &any);
  if (!st && any) st = copy_job(tuner, on, op_node);
  free(choices);
  return st;
}

static clave_status plan_late(tuner *tuner, uint32_t index, schedule *schedule);

/* Plans a late body. Ignores errors in its sizes: it may never run, or the run reports them. */
static void tune_plan_body(tuner *tuner, uint32_t index, schedule *plan, uint32_t number,
                           int body) {
  range range =
      tuner->executable->methods[index].graph.bodies[plan->controls[number]->instruction][body];
  cursor from = {.next = range.first, .end = range.end, .control = number, .body = body};
  schedule *next = NULL;
  bool made;
  clave_status st = schedule_find_next(tuner->executable, index, plan, from, NULL, &next, &made);
  if (!st) st = plan_late(tuner, index, next);
  schedule_release(tuner->executable, next);
  status_free(st);
}

static clave_status plan_late(tuner *tuner, uint32_t index, schedule *schedule) {
  if (schedule->reads != NO_INDEX) tuner->has_rest = true;
  for (uint32_t i = schedule->first_control; i < schedule->n_controls; i++)
    for (int body = 0; body < 2; body++)
      if (schedule->controls[i]->late[body]) tune_plan_body(tuner, index, schedule, i, body);
  return NULL;
}

static clave_status plan_values(tuner *tuner, uint32_t index, const scalar_value *values) {
  const plan_observer observer = {observe_node, tuner};
  schedule *schedule = NULL;
  TRY(executable_create(tuner->session->prog, &tuner->session->devices,
                        &tuner->session->executable->options, &tuner->executable));
  tuner->executable->observer = &observer;
  clave_status st = schedule_find(tuner->executable, index, values, false, &schedule);
  if (!st) st = plan_late(tuner, index, schedule);
  schedule_release(tuner->executable, schedule);
  tuner->executable->observer = NULL;
  return st;
}

clave_status tune_collect(tuner *tuner, uint32_t index) {
  scalar_value *values = calloc((size_t)tuner->session->prog->ir.values.count + 1, sizeof *values);
  tuner->last = &tuner->jobs;
  if (!values) return status_no_memory();
  clave_status st = session_values(tuner->session, index, values);
  if (!st) st = plan_values(tuner, index, values);
  free(values);
  return st;
}
