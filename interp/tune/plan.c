/* What there is to choose in a method: its schedule is planned by an executable that tells of every
 * node. */
#include "interp/tune/plan.h"

#include <stdlib.h>
#include <string.h>

#include "interp/plan/schedule_cache.h"
#include "interp/run/run.h"

static void free_job(tune_job *j) {
  free(j->operands);
  free(j->values);
  free(j);
}

void tune_free(tuner *t) {
  for (tune_job *j = t->jobs, *next; j; j = next) {
    next = j->next;
    free_job(j);
  }
  free(t->seen);
  executable_destroy(t->x);
}

static uint32_t count_operands(const ir_instruction *ins) {
  uint32_t n = 0;
  for (operand_iter i = operands_of(ins); next_operand(&i);) n++;
  return n;
}

static clave_status copy_job(tuner *t, int on, const node *n) {
  size_t n_values = t->s->prog->ir.values.count;
  tune_job *j = calloc(1, sizeof *j);
  if (!j) return status_no_memory();
  j->backend = on;
  j->instruction = n->instruction;
  j->operands = calloc((size_t)count_operands(n->instruction) + 1, sizeof *j->operands);
  j->values = calloc(n_values + 1, sizeof *j->values);
  if (!j->operands || !j->values) {
    free_job(j);
    return status_no_memory();
  }
  for (operand_iter i = operands_of(n->instruction); next_operand(&i);)
    j->operands[j->n++] = n->tensors[i.o.tid];
  if (n_values) memcpy(j->values, n->values, n_values * sizeof *j->values);
  *t->last = j;
  t->last = &j->next;
  return NULL;
}

seen_choice *tune_find_seen(const tuner *t, const variant_choice *c) {
  for (size_t i = 0; i < t->n_seen; i++)
    if (strcmp(t->seen[i].family, c->family) == 0 && strcmp(t->seen[i].key, c->key) == 0)
      return &t->seen[i];
  return NULL;
}

clave_status tune_add_seen(tuner *t, const variant_choice *c) {
  if (!array_reserve(&t->seen, &t->cap_seen, t->n_seen + 1, sizeof *t->seen))
    return status_no_memory();
  seen_choice *s = &t->seen[t->n_seen++];
  memcpy(s->family, c->family, sizeof s->family);
  memcpy(s->key, c->key, sizeof s->key);
  s->is_settled = false;
  return NULL;
}

/* Choices of a node that others have not made before; those among one variant are none. */
static clave_status take_choices(tuner *t, const variant_choices *c, bool *any) {
  for (int i = 0; i < c->n; i++) {
    if (c->items[i].n < 2 || tune_find_seen(t, &c->items[i])) continue;
    TRY(tune_add_seen(t, &c->items[i]));
    *any = true;
  }
  return NULL;
}

/* A plan_observer's. */
static clave_status see_node(void *ctx, int on, const node *n) {
  tuner *t = ctx;
  const backend_vtable *vt = t->s->devices.backends[on]->vt;
  variant_choices *c = calloc(1, sizeof *c);
  recording *r = NULL;
  bool any = false;
  node own = *n;
  if (!c) return status_no_memory();
  own.choices = c;
  clave_status st = vt->record(t->s->devices.backends[on], &own, t->x->options.fast, &r);
  vt->recording_destroy(t->s->devices.backends[on], r);
  if (!st) st = take_choices(t, c, &any);
  if (!st && any) st = copy_job(t, on, n);
  free(c);
  return st;
}

static clave_status plan_late(tuner *t, uint32_t index, schedule *p);

/* A body that is planned when it runs. It may never run: sizes that are wrong are the run's to
 * tell. */
static void plan_body(tuner *t, uint32_t index, schedule *p, uint32_t number, int body) {
  range r = t->x->methods[index].g.bodies[p->controls[number]->instruction][body];
  cursor from = {.next = r.first, .end = r.end, .control = number, .body = body};
  schedule *next = NULL;
  bool made;
  clave_status st = schedule_find_next(t->x, index, p, from, NULL, &next, &made);
  if (!st) st = plan_late(t, index, next);
  schedule_release(t->x, next);
  status_free(st);
}

static clave_status plan_late(tuner *t, uint32_t index, schedule *p) {
  if (p->reads != NO_INDEX) t->has_rest = true;
  for (uint32_t i = p->first_control; i < p->n_controls; i++)
    for (int body = 0; body < 2; body++)
      if (p->controls[i]->late[body]) plan_body(t, index, p, i, body);
  return NULL;
}

static clave_status plan_values(tuner *t, uint32_t index, const scalar_value *values) {
  const plan_observer observer = {see_node, t};
  schedule *p = NULL;
  TRY(executable_create(t->s->prog, &t->s->devices, &t->s->x->options, &t->x));
  t->x->observer = &observer;
  clave_status st = schedule_find(t->x, index, values, false, &p);
  if (!st) st = plan_late(t, index, p);
  schedule_release(t->x, p);
  t->x->observer = NULL;
  return st;
}

clave_status tune_collect(tuner *t, uint32_t index) {
  scalar_value *values = calloc((size_t)t->s->prog->ir.values.count + 1, sizeof *values);
  t->last = &t->jobs;
  if (!values) return status_no_memory();
  clave_status st = session_values(t->s, index, values);
  if (!st) st = plan_values(t, index, values);
  free(values);
  return st;
}
