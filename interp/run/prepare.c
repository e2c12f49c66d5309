/* What the commands of a schedule need before they run: kernels, which are built together, the
 * states of the streams, and packed weights. */
#include "interp/run/prepare.h"

#include "interp/run/move.h"
#include "interp/run/packed_weights.h"

typedef struct progress_relay {
  const session *s;
  int done;          /* that was told */
  bool is_cancelled; /* once asked with that answer: nobody is asked again */
} progress_relay;

static bool relay_progress(void *ctx, int done, int total) {
  progress_relay *r = ctx;
  const session_options *o = &r->s->options;
  if (o->progress && done > r->done) o->progress(o->progress_ctx, "building kernels", done, total);
  r->done = done;
  r->is_cancelled = r->is_cancelled || session_is_cancelled(r->s);
  return !r->is_cancelled;
}

static clave_status build_kernels(session *s) {
  for (int b = 0; b < s->devices.count; b++) {
    const backend_vtable *vt = s->devices.backends[b]->vt;
    if (!vt->building) continue;
    progress_relay r = {.s = s};
    TRY(vt->building->build_all(s->streams[b], relay_progress, &r));
    if (r.is_cancelled) return CANCELLED("cancelled");
  }
  return NULL;
}

/* An error is the first command's that its device cannot run; the others of that kind are moved as
 * well. */
static clave_status prepare_commands(const running *r) {
  const schedule *p = r->b->p;
  clave_status first = NULL;
  packing_progress packing = begin_packing(r);
  pack_largest(r, &packing);
  for (uint32_t i = p->first_command; i < p->n_commands; i++) {
    const command *c = &p->commands[i];
    const backend_vtable *vt = r->s->devices.backends[c->backend]->vt;
    command_state *state = &r->b->commands[i];
    if (!c->recorded) continue;
    if (session_is_cancelled(r->s)) {
      status_free(first);
      return CANCELLED("cancelled");
    }
    clave_status st = NULL;
    if (vt->building)
      st = vt->building->prepare(r->s->streams[c->backend], c->recorded, &state->state);
    if (!st) st = prepare_packed_weights(r, c, state, &packing);
    st = while_in_node(give_up_command(r, c, st), r->g, c->instruction);
    if (first || host_may_copy(r->s, c, st)) {
      status_free(st);
    } else {
      first = st;
    }
    if (first && !r->s->plan_again) return first;
  }
  end_packing(r, &packing);
  return first;
}

bool kernels_are_built(const running *r, const schedule *p) {
  for (uint32_t i = p->first_command; i < p->n_commands; i++) {
    const command *c = &p->commands[i];
    stream *q = r->s->streams[c->backend];
    if (c->recorded && q->owner->vt->building && !q->owner->vt->building->is_built(q, c->recorded))
      return false;
  }
  return true;
}

clave_status prepare_kernels(const running *r) {
  const schedule *p = r->b->p;
  bool asked = false;
  for (uint32_t i = p->first_command; i < p->n_commands; i++) {
    const command *c = &p->commands[i];
    const backend_vtable *vt = r->s->devices.backends[c->backend]->vt;
    if (!c->recorded || !vt->building) continue;
    TRY(vt->building->request(r->s->streams[c->backend], c->recorded));
    asked = true;
  }
  if (asked) TRY(build_kernels(r->s));
  return prepare_commands(r);
}
