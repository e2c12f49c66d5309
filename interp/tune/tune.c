/* Tuning a method: for each choice that its nodes make, the variants are measured and the winner
 * goes to the device's table. */

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "interp/tune/measure.h"
#include "interp/tune/plan.h"

static tuning *table_of(const tuner *t, const tune_job *j) {
  return t->s->devices.backends[j->backend]->tuning;
}

static bool is_known(const tuner *t, const tune_job *j, const variant_choice *c) {
  tuning_row r;
  return table_of(t, j) && tuning_find(table_of(t, j), c->family, c->key, &r) &&
         strcmp(r.key, c->key) == 0;
}

static bool tell(tuner *t, const tune_job *j, const variant_choice *c, tune_event e) {
  e.device = &t->s->devices.backends[j->backend]->info;
  e.family = c->family;
  e.key = c->key;
  e.by_rule = c->names[c->by_rule];
  e.done = t->n_done;
  e.total = t->n_seen;
  if (t->o->report && !t->o->report(t->o->ctx, &e)) t->is_stopped = true;
  return !t->is_stopped;
}

/* A choice that is made as it is: by the table, or because nothing is measured. */
static void tell_taken(tuner *t, const tune_job *j, const variant_choice *c, tune_how how) {
  t->n_done++;
  (void)tell(t, j, c,
             (tune_event){.variant = c->names[c->taken], .ratio = 1, .how = how, .n = c->n});
}

static clave_status measure(tuner *t, const tune_job *j, tune_node *n, const variant_choice *c) {
  int winner, good;
  double ratio;
  tune_event e = {.how = TUNE_BEGINS, .variant = c->names[c->taken], .ratio = 1, .n = c->n};
  if (!tell(t, j, c, e)) return NULL;
  TRY(tune_measure(t, j, n, c, &winner, &ratio, &good));
  if (t->is_stopped) return NULL;
  e = (tune_event){.how = good ? TUNE_MEASURED : TUNE_UNMEASURED,
                   .variant = c->names[winner],
                   .ratio = ratio,
                   .n = good};
  t->n_done++;
  if (good) TRY(tuning_put(table_of(t, j), c->family, c->key, c->names[winner]));
  if (good && t->o->keep) TRY(t->o->keep(t->o->ctx, t->s->devices.backends[j->backend]));
  (void)tell(t, j, c, e);
  return NULL;
}

/* ---------------------------------------------------------------- the choices of a node */

/* The node as it would be recorded now. */
static clave_status list_choices(tuner *t, const tune_job *j, const tune_node *n,
                                 variant_choices *out) {
  backend *be = t->s->devices.backends[j->backend];
  node nd = n->nd;
  recording *r;
  out->n = 0;
  nd.choices = out;
  TRY(be->vt->record(be, &nd, t->x->options.fast, &r));
  be->vt->recording_destroy(be, r);
  return NULL;
}

/* The first that is not settled; -1: none. Some only another variant of an earlier one leads to. */
static clave_status find_open(tuner *t, const variant_choices *c, int *out) {
  *out = -1;
  for (int i = 0; i < c->n && *out < 0; i++) {
    if (c->items[i].n < 2) continue;
    if (!tune_find_seen(t, &c->items[i])) TRY(tune_add_seen(t, &c->items[i]));
    if (!tune_find_seen(t, &c->items[i])->is_settled) *out = i;
  }
  return NULL;
}

static clave_status settle(tuner *t, const tune_job *j, tune_node *n, const variant_choice *c) {
  if (is_known(t, j, c) && !t->o->again) {
    tell_taken(t, j, c, TUNE_KNOWN);
    return NULL;
  }
  if (t->o->dry) {
    tell_taken(t, j, c, TUNE_BY_RULE);
    return NULL;
  }
  return measure(t, j, n, c);
}

/* One after the other, since what is taken first decides what else there is to choose. */
static clave_status settle_all(tuner *t, const tune_job *j, tune_node *n) {
  variant_choices *c = calloc(1, sizeof *c);
  if (!c) return status_no_memory();
  clave_status st = NULL;
  int i = 0;
  while (!st && i >= 0 && !t->is_stopped) {
    st = list_choices(t, j, n, c);
    if (!st) st = find_open(t, c, &i);
    if (st || i < 0) break;
    tune_find_seen(t, &c->items[i])->is_settled = true;
    st = settle(t, j, n, &c->items[i]);
    if (t->deadline_ns && clock_ns() >= t->deadline_ns) t->is_stopped = true;
  }
  free(c);
  return st;
}

static clave_status settle_job(tuner *t, const tune_job *j) {
  tune_node n;
  clave_status st = tune_node_create(t, j, &n);
  if (!st) st = settle_all(t, j, &n);
  tune_node_destroy(t, j, &n);
  return status_while(st, "measuring '%s'", j->instruction->name ? j->instruction->name : "");
}

clave_status session_tune(session *s, uint32_t index, const tune_options *o, tune_result *out) {
  tuner t = {.s = s, .o = o};
  *out = (tune_result){0};
  if (o->budget_s > 0) t.deadline_ns = clock_ns() + (int64_t)(o->budget_s * 1e9);
  clave_status st = tune_collect(&t, index);
  for (const tune_job *j = t.jobs; j && !st && !t.is_stopped; j = j->next) st = settle_job(&t, j);
  /* Some are not made any more, since an earlier one of their node came out otherwise. */
  *out = (tune_result){
      .total = t.is_stopped ? t.n_seen : t.n_done, .done = t.n_done, .has_rest = t.has_rest};
  tune_free(&t);
  return status_while(st, "method '%s'", s->prog->ir.methods.items[index].name);
}
