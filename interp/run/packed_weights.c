/* The packed weights that commands read: the store that all sessions share packs each once, or has
 * it from the program's file. */
#include "interp/run/packed_weights.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"

static void note_damaged(const session *s, uint32_t constant) {
  const session_options *o = &s->options;
  char line[256];
  if (!o->message) return;
  (void)snprintf(line, sizeof line,
                 "the packed form of constant '%.100s' in the program's file is damaged (hash): it "
                 "is packed anew",
                 s->prog->ir.constants.items[constant].name);
  o->message(o->message_ctx, line);
}

static bool is_packed_for(const program *p, const device_set *devices) {
  for (size_t i = 0; i < p->n_forms; i++)
    for (int b = 0; b < devices->count; b++) {
      const char *own = devices->backends[b]->info.weight_layout;
      if (own && strcmp(p->forms[i].layout, own) == 0) return true;
    }
  return false;
}

/* Says once that a weight is packed here though the program has packed ones, for other devices. */
static void note_elsewhere(const running *r, const backend_info *on) {
  session *s = r->s;
  const session_options *o = &s->options;
  char line[192];
  if (s->told_packing || !s->prog->n_forms || o->packs || !o->message) return;
  s->told_packing = true;
  if (is_packed_for(s->prog, &s->devices)) return;
  (void)snprintf(line, sizeof line, "weights are packed for %s, not for %s: they are packed anew",
                 s->prog->forms[0].layout, on->weight_layout ? on->weight_layout : on->kind);
  o->message(o->message_ctx, line);
}

static clave_status take_packed_weight(const running *r, const command *c, int i,
                                       command_state *state) {
  const packed_weight_request *request = &c->recorded->weights[i];
  const packing_means means = {.stream = r->s->streams[c->backend],
                               .operands = r->b->bound[c->backend],
                               .checks = !r->s->options.unchecked,
                               .clears = r->s->options.packs};
  const packed_weight *weight;
  bool is_damaged;
  clave_status st =
      constant_store_pack(r->s->stores[c->backend], &means, request, &weight, &is_damaged);
  if (is_damaged) note_damaged(r->s, request->constant);
  if (st) return st;
  state->weights[i] = weight ? weight->buf : NULL;
  if (!request->pack || !weight->is_packed_here) return NULL;
  state->packs = true;
  note_elsewhere(r, &r->s->devices.backends[c->backend]->info);
  return NULL;
}

/* A weight that another recording packs is looked for until it is there. */
clave_status take_packed_weights(const running *r, const command *c, command_state *state) {
  const recording *recorded = c->recorded;
  bool has_all = true;
  if (!recorded->n_weights || state->weights_of == recorded->serial) return NULL;
  state->packs = false;
  for (int i = 0; i < recorded->n_weights; i++) {
    TRY(take_packed_weight(r, c, i, state));
    has_all = has_all && state->weights[i];
  }
  if (has_all) state->weights_of = recorded->serial;
  return NULL;
}

/* ---------------------------------------------------------------- ahead of a run */

static size_t largest_bytes(const command *c) {
  size_t most = 0;
  for (int i = 0; c->recorded && i < c->recorded->n_weights; i++)
    if (c->recorded->weights[i].bytes > most) most = c->recorded->weights[i].bytes;
  return most;
}

void pack_largest(const running *r, packing_progress *made) {
  const schedule *p = r->b->p;
  const int64_t begin = clock_ns();
  uint32_t largest = p->first_command;
  if (r->s->options.packs) return;
  for (uint32_t i = p->first_command; i < p->n_commands; i++)
    if (largest_bytes(&p->commands[i]) > largest_bytes(&p->commands[largest])) largest = i;
  if (largest < p->n_commands && p->commands[largest].recorded)
    status_free(take_packed_weights(r, &p->commands[largest], &r->b->commands[largest]));
  made->taken_ns += clock_ns() - begin;
}

packing_progress begin_packing(const running *r) {
  const schedule *p = r->b->p;
  packing_progress made = {0};
  for (uint32_t i = p->first_command; i < p->n_commands; i++)
    made.total += largest_bytes(&p->commands[i]) > 0;
  return made;
}

static void tell_packing(const running *r, packing_progress *p) {
  const session_options *o = &r->s->options;
  p->is_told = true;
  if (o->progress) o->progress(o->progress_ctx, "packing weights", p->done, p->total);
}

clave_status prepare_packed_weights(const running *r, const command *c, command_state *state,
                                    packing_progress *p) {
  enum { QUIET_NS = 1000000000 }; /* packing that takes less is not reported */
  int64_t begin = clock_ns();
  if (!c->recorded->n_weights) return NULL;
  TRY(take_packed_weights(r, c, state));
  p->done += largest_bytes(c) > 0;
  p->taken_ns += clock_ns() - begin;
  if (p->taken_ns > QUIET_NS) tell_packing(r, p);
  return NULL;
}

void end_packing(const running *r, packing_progress *p) {
  bool is_open = p->is_told && p->done < p->total;
  p->done = p->total;
  if (is_open) tell_packing(r, p);
}
