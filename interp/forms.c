/* Forms of constants that a command reads: made by the first session that runs one, kept by the
 * store that all share. */
#include "interp/running.h"

typedef struct filling {
  const running *r;
  const command *c;
  const recording *fill;
} filling;

/* The form is there for all streams when this returns. */
static clave_status fill_on(stream *q, const filling *f, buffer *to) {
  const backend_vtable *vt = q->owner->vt;
  const run_operands o = {.tensors = f->r->b->bound[f->c->backend], .scratch = to};
  void *state = NULL;
  unsigned char first;
  clave_status st = vt->run(q, f->fill, &state, &o, f->c->instruction);
  if (!st) st = vt->read(q, to, 0, &first, to->bytes ? sizeof first : 0);
  if (state) vt->state_destroy(q, state);
  return st;
}

/* Its time is no node's. */
static clave_status fill_form(void *ctx, buffer *to) {
  const filling *f = ctx;
  stream *q = f->r->s->streams[f->c->backend];
  const backend_vtable *vt = q->owner->vt;
  bool profiles = f->r->s->options.profile && vt->profile;
  if (profiles) TRY(vt->profile(q, false));
  clave_status st = fill_on(q, f, to);
  if (!profiles) return st;
  clave_status on = vt->profile(q, true);
  if (!st) return on;
  status_free(on);
  return st;
}

clave_status take_forms(const running *r, const command *c, command_state *state) {
  const recording *recorded = c->recorded;
  if (!recorded->n_forms || state->forms_of == recorded->serial) return NULL;
  for (int i = 0; i < recorded->n_forms; i++) {
    filling f = {r, c, recorded->forms[i].fill};
    TRY(constant_store_form(r->s->stores[c->backend], &recorded->forms[i], fill_form, &f,
                            &state->forms[i]));
  }
  state->forms_of = recorded->serial;
  return NULL;
}
