/* Walking over the commands of schedules: one after the other, with the bodies of control ops; and
 * on to the schedule that follows, once its sizes are known. */
#include "interp/run/walk.h"

#include "interp/run/arguments.h"
#include "interp/run/bind.h"
#include "interp/run/commands.h"
#include "interp/run/control_flow.h"
#include "interp/run/move.h"
#include "interp/run/prepare.h"
#include "interp/run/streams.h"
#include "interp/scalar.h"

/* ---------------------------------------------------------------- commands */

static clave_status run_numbered(const running *r, uint32_t i) {
  const command *c = &r->b->p->commands[i];
  if (c->kind < COMMAND_CONTROL) TRY(give_up_command(r, c, run_command(r, c, &r->b->commands[i])));
  if (c->kind == COMMAND_CONTROL) {
    TRY(run_control(r, c->control));
    TRY(observe_control(r, i)); /* by its number: bodies that are planned late move commands */
  }
  return r->s->options.poison ? poison_dead(r, i) : NULL;
}

clave_status run_commands(const running *r, range commands) {
  const schedule *p = r->b->p;
  r->s->random.run++;
  for (uint32_t i = commands.first;; i++) { /* asks in a loop without commands, too */
    if (session_is_cancelled(r->s)) return CANCELLED("cancelled");
    if (i >= commands.end) return NULL;
    TRY(while_in_node(run_numbered(r, i), r->g, p->commands[i].instruction));
    if (p->commands[i].kind == COMMAND_CONTROL) i = p->controls[p->commands[i].control]->end - 1;
  }
}

/* ---------------------------------------------------------------- schedules */

static clave_status read_item(const running *r, scalar_value *out) {
  const schedule *p = r->b->p;
  const ir_item *op = r->g->instructions[p->reads].op;
  location l = p->now[op->x];
  unsigned char raw[8] = {0};
  TRY(read_element(r, l, schedule_home(p, l.storage), raw));
  return scalar_from_bytes(l.t.type, raw, r->s->prog->ir.values.items[op->out].type, out);
}

static clave_status keep_item(method_state *m, scalar_value v) {
  if (!array_reserve(&m->items, &m->cap_items, (size_t)m->n_items + 1, sizeof *m->items))
    return status_no_memory();
  m->items[m->n_items++] = v;
  return NULL;
}

/* The schedule that the value read last leads to. */
static clave_status go_on(const running *r) {
  const schedule *p = r->b->p;
  scalar_value v = {0};
  bool is_new;
  TRY(finish_all(r->s, r->g)); /* a value made of bad data is none */
  TRY(while_in_node(read_item(r, &v), r->g, p->reads));
  v.known = true;
  if (p->rest.control == NO_INDEX) TRY(keep_item(r->state, v));
  TRY(bind_following(r, &v, &is_new));
  return is_new ? prepare_kernels(r) : NULL;
}

clave_status run_parts(const running *r) {
  for (;;) {
    const schedule *p = r->b->p;
    uint64_t bytes = schedule_arena_bytes(p);
    if (r->s->last_arena_bytes < bytes) r->s->last_arena_bytes = bytes;
    TRY(write_inputs(r));
    TRY(run_commands(r, (range){p->first_command, p->n_commands}));
    if (p->reads == NO_INDEX) return NULL;
    TRY(go_on(r));
  }
}
