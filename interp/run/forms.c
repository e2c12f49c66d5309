/* Forms of constants that a command reads: made by the first session that runs one, or taken from
 * the program's file; kept by the store that all share. */
#include "interp/run/forms.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"

typedef struct filling {
  const running *r;
  const command *c;
  const recording *fill;
} filling;

/* Runs the filling in `scratch`; it has ended when this returns. */
static clave_status run_filling(stream *q, const filling *f, buffer *scratch) {
  const backend_vtable *vt = q->owner->vt;
  const run_operands o = {.tensors = f->r->b->bound[f->c->backend], .scratch = scratch};
  void *state = NULL;
  unsigned char first;
  clave_status st = NULL;
  if (f->r->s->options.packs) st = vt->fill_zero(q, scratch, 0, scratch->bytes);
  if (!st) st = vt->run(q, f->fill, &state, &o, f->c->instruction);
  if (!st) st = vt->read(q, scratch, 0, &first, scratch->bytes ? sizeof first : 0);
  if (state) vt->state_destroy(q, state);
  return st;
}

/* The form is there for all streams when this returns. A filling that wants more memory than the
 * form has runs elsewhere. */
static clave_status fill_on(stream *q, const filling *f, buffer *to) {
  const backend_vtable *vt = q->owner->vt;
  buffer *scratch;
  unsigned char first;
  if (f->fill->scratch_bytes <= to->bytes) return run_filling(q, f, to);
  TRY(vt->buffer_create(q->owner, f->fill->scratch_bytes, &scratch));
  clave_status st = run_filling(q, f, scratch);
  if (!st) st = vt->copy(q, to, 0, scratch, 0, to->bytes);
  if (!st) st = vt->read(q, to, 0, &first, to->bytes ? sizeof first : 0);
  vt->buffer_destroy(q->owner, scratch);
  return st;
}

/* Its time is no node's. */
static clave_status fill_form(void *ctx, buffer *to) {
  const filling *f = ctx;
  stream *q = f->r->s->streams[f->c->backend];
  const backend_vtable *vt = q->owner->vt;
  bool profiles = f->r->s->options.profile && vt->profile;
  if (profiles) TRY(vt->profile->enable(q, false));
  clave_status st = fill_on(q, f, to);
  if (!profiles) return st;
  clave_status on = vt->profile->enable(q, true);
  if (!st) return on;
  status_free(on);
  return st;
}

static void note_damaged(void *ctx, const char *constant) {
  const session_options *o = &((const filling *)ctx)->r->s->options;
  char line[256];
  if (!o->message) return;
  (void)snprintf(line, sizeof line,
                 "the packed form of constant '%.100s' in the program's file is damaged (hash): it "
                 "is packed anew",
                 constant);
  o->message(o->message_ctx, line);
}

static bool is_packed_for(const program *p, const device_set *devices) {
  for (size_t i = 0; i < p->n_forms; i++)
    for (int b = 0; b < devices->count; b++) {
      const char *own = devices->backends[b]->info.forms;
      if (own && strcmp(p->forms[i].layout, own) == 0) return true;
    }
  return false;
}

/* Once: a form is made though the program has some, which are for others. */
static void note_elsewhere(const running *r, const backend_info *on) {
  session *s = r->s;
  const session_options *o = &s->options;
  char line[192];
  if (s->told_packing || !s->prog->n_forms || o->packs || !o->message) return;
  s->told_packing = true;
  if (is_packed_for(s->prog, &s->devices)) return;
  (void)snprintf(line, sizeof line, "weights are packed for %s, not for %s: they are packed anew",
                 s->prog->forms[0].layout, on->forms ? on->forms : on->kind);
  o->message(o->message_ctx, line);
}

static clave_status make_form(const running *r, const command *c, int i, command_state *state) {
  const constant_form *wanted = &c->recorded->forms[i];
  bool is_filled;
  filling f = {r, c, wanted->fill};
  const form_source from = {
      .fill = fill_form, .damaged = note_damaged, .ctx = &f, .checks = !r->s->options.unchecked};
  TRY(constant_store_form(r->s->stores[c->backend], wanted, &from, &state->forms[i], &is_filled));
  state->fills = state->fills || is_filled;
  if (is_filled) note_elsewhere(r, &r->s->devices.backends[c->backend]->info);
  return NULL;
}

/* A form that others make is looked for until it is there. */
clave_status take_forms(const running *r, const command *c, command_state *state) {
  const recording *recorded = c->recorded;
  bool has_all = true;
  if (!recorded->n_forms || state->forms_of == recorded->serial) return NULL;
  state->fills = false;
  for (int i = 0; i < recorded->n_forms; i++) {
    const constant_form *f = &recorded->forms[i];
    if (f->fill)
      TRY(make_form(r, c, i, state));
    else
      state->forms[i] = constant_store_find_form(r->s->stores[c->backend], f);
    has_all = has_all && state->forms[i];
  }
  if (has_all) state->forms_of = recorded->serial;
  return NULL;
}

/* ---------------------------------------------------------------- ahead of a run */

static size_t form_bytes(const command *c) {
  size_t most = 0;
  for (int i = 0; c->recorded && i < c->recorded->n_forms; i++)
    if (c->recorded->forms[i].bytes > most) most = c->recorded->forms[i].bytes;
  return most;
}

void pack_largest(const running *r, packing_progress *made) {
  const schedule *p = r->b->p;
  const int64_t begin = clock_ns();
  uint32_t largest = p->first_command;
  if (r->s->options.packs) return;
  for (uint32_t i = p->first_command; i < p->n_commands; i++)
    if (form_bytes(&p->commands[i]) > form_bytes(&p->commands[largest])) largest = i;
  if (largest < p->n_commands && p->commands[largest].recorded)
    status_free(take_forms(r, &p->commands[largest], &r->b->commands[largest]));
  made->taken_ns += clock_ns() - begin;
}

packing_progress begin_packing(const running *r) {
  const schedule *p = r->b->p;
  packing_progress made = {0};
  for (uint32_t i = p->first_command; i < p->n_commands; i++)
    made.total += form_bytes(&p->commands[i]) > 0;
  return made;
}

static void tell_packing(const running *r, packing_progress *p) {
  const session_options *o = &r->s->options;
  p->is_told = true;
  if (o->progress) o->progress(o->progress_ctx, "packing weights", p->done, p->total);
}

clave_status prepare_forms(const running *r, const command *c, command_state *state,
                           packing_progress *p) {
  enum { QUIET_NS = 1000000000 }; /* what takes less is not told */
  int64_t begin = clock_ns();
  if (!c->recorded->n_forms) return NULL;
  TRY(take_forms(r, c, state));
  p->done += form_bytes(c) > 0;
  p->taken_ns += clock_ns() - begin;
  if (p->taken_ns > QUIET_NS) tell_packing(r, p);
  return NULL;
}

void end_packing(const running *r, packing_progress *p) {
  bool is_open = p->is_told && p->done < p->total;
  p->done = p->total;
  if (is_open) tell_packing(r, p);
}
