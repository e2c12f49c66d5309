/* From offsets to addresses: where the current schedule's blocks and slots are, and which schedule
 * that is. */
#include "interp/run/bind.h"

#include <string.h>

#include "interp/plan/schedule_cache.h"
#include "interp/run/arenas.h"
#include "interp/run/arguments.h"

/* ---------------------------------------------------------------- slots */

bound_tensor bind_location(const binding *b, location l, int on) {
  const address *a = &b->blocks[b->p->storages[l.storage].block[on]];
  return (bound_tensor){.t = l.t, .buf = a->buf, .buffer_offset = a->offset};
}

void rebind_slot(const running *r, uint32_t slot, location l) {
  const storage *g = &r->b->p->storages[l.storage];
  for (int b = 0; b < r->s->devices.count; b++)
    if (g->block[b] != NO_INDEX) r->b->bound[b][slot] = bind_location(r->b, l, b);
}

void restore_slots(const running *r, range commands) {
  const schedule *p = r->b->p;
  for (uint32_t i = commands.first; i < commands.end; i++)
    if (p->commands[i].kind == COMMAND_COPY && p->commands[i].rebind != NO_INDEX)
      rebind_slot(r, p->commands[i].rebind, p->at[p->commands[i].rebind]);
}

/* ---------------------------------------------------------------- rebased blocks */

static void rebase(binding *b, uint32_t rebased, uint8_t home, const bound_tensor *to,
                   int64_t bytes) {
  int64_t offset = (int64_t)to->buffer_offset + to->t.offset * (int64_t)dtype_size(to->t.type);
  b->blocks[b->p->storages[rebased].block[home]] = (address){to->buf, (size_t)(offset + bytes)};
}

static void rebase_onto(const running *r, uint32_t rebased, uint8_t home, uint32_t onto) {
  bound_tensor to = bind_location(r->b, (location){.storage = onto}, home);
  rebase(r->b, rebased, home, &to, 0);
}

void begin_carried(const running *r, uint32_t control_index) {
  const control *c = r->b->p->controls[control_index];
  for (uint32_t k = 0; k < c->n_results; k++)
    r->b->carried[control_index].items[k].storage = c->results[k].first;
}

/* What is carried before slices: what is stacked, too, is where the slice was in the last
 * iteration. */
void rebase_blocks(const running *r, uint32_t control_index, int64_t i) {
  const control *c = r->b->p->controls[control_index];
  for (uint32_t k = 0; k < c->n_results; k++) {
    const body_result *t = &c->results[k];
    uint32_t in = r->b->carried[control_index].items[k].storage;
    if (!t->is_carried) continue;
    rebase_onto(r, t->arg, t->home, in);
    if (in == t->spare || in == t->result)
      rebase_onto(r, t->target, t->home, in == t->spare ? t->result : t->spare);
  }
  for (uint32_t k = 0; k < c->n_slices; k++) {
    const slices *x = &c->slices[k];
    bound_tensor whole = bind_location(r->b, x->whole, x->home);
    rebase(r->b, x->storage, x->home, &whole, i * x->stride);
  }
  for (uint32_t k = 0; k < c->n_rebased; k++)
    rebind_slot(r, c->rebased[k], r->b->p->at[c->rebased[k]]);
}

/* ---------------------------------------------------------------- schedules */

static clave_status bind_blocks(const running *r) {
  const session *s = r->s;
  const schedule *p = r->b->p;
  for (uint32_t i = p->first_block; i < p->n_blocks; i++) {
    const block *k = &p->blocks[i];
    address *a = &r->b->blocks[i];
    *a = (address){0};
    if (k->kind == BLOCK_ARENA)
      *a = (address){s->arenas[k->backend].chunks[k->a.chunk], k->a.offset};
    if (k->kind == BLOCK_STATE) a->buf = s->state[k->slot - first_state(s->prog)];
    if (k->kind == BLOCK_CONSTANT) TRY(constant_store_get(s->stores[k->backend], k->slot, &a->buf));
  }
  return NULL;
}

static void place_rebased(const running *r) {
  const schedule *p = r->b->p;
  for (uint32_t i = p->first_control; i < p->n_controls; i++) {
    begin_carried(r, i);
    rebase_blocks(r, i, 0);
  }
}

/* Slots of schedules before are bound already, but not on a backend that reads them only now. They
 * may have been moved by copies since they were produced. */
static void bind_new_slot(const running *r, uint32_t tid) {
  const schedule *p = r->b->p;
  bool moved = p->now[tid].storage < p->first_storage;
  const location *l = moved ? &p->now[tid] : &p->at[tid];
  if (l->storage == NO_INDEX) return;
  for (int b = 0; b < r->s->devices.count; b++)
    if (p->storages[l->storage].block[b] != NO_INDEX && !r->b->bound[b][tid].buf)
      r->b->bound[b][tid] = bind_location(r->b, *l, b);
}

/* The current schedule's own. */
static clave_status bind_own(const running *r) {
  binding *b = r->b;
  const schedule *p = b->p;
  TRY(reserve_binding(r));
  TRY(grow_arenas(r->s, p));
  TRY(bind_blocks(r));
  TRY(place_arguments(r));
  place_rebased(r);
  for (slot_iter i = slots_of(r->g, p->instructions); next_slot(&i);) bind_new_slot(r, i.tid);
  return NULL;
}

clave_status bind_first(const running *r) {
  binding *b = r->b;
  if (b->p == b->root && b->generation == r->s->generation) return NULL;
  if (b->p != b->root) schedule_release(r->s->x, b->p);
  b->p = b->root;
  b->generation = 0;
  for (int i = 0; i < r->s->devices.count; i++)
    memset(b->bound[i], 0, slot_count(r->s->prog) * sizeof *b->bound[i]);
  TRY(bind_own(r));
  b->generation = r->s->generation;
  return NULL;
}

/* Makes p the current schedule, which is made of the one that is; takes p over. */
static clave_status go_on_with(const running *r, schedule *p) {
  binding *b = r->b;
  schedule *before = b->p;
  b->p = p;
  clave_status st = bind_own(r);
  if (!st) return NULL;
  b->p = before;
  b->generation = 0;
  schedule_release(r->s->x, p);
  return st;
}

clave_status bind_following(const running *r, const scalar_value *item, bool *is_new) {
  schedule *before = r->b->p, *next;
  TRY(schedule_find_next(r->s->x, r->index, before, before->rest, item, &next, is_new));
  TRY(go_on_with(r, next));
  if (before != r->b->root) schedule_release(r->s->x, before);
  return NULL;
}

clave_status enter_late_body(const running *r, uint32_t number, int body, schedule **outer,
                             bool *is_new) {
  schedule *before = *outer = r->b->p, *next;
  range instructions = r->g->bodies[before->controls[number]->instruction][body];
  cursor from = {
      .next = instructions.first, .end = instructions.end, .control = number, .body = body};
  TRY(schedule_find_next(r->s->x, r->index, before, from, NULL, &next, is_new));
  return go_on_with(r, next);
}

void leave_late_body(const running *r, schedule *outer) {
  binding *b = r->b;
  schedule *p = b->p;
  restore_slots(r, (range){p->first_command, p->n_commands});
  for (slot_iter i = slots_of(r->g, p->instructions); next_slot(&i);) {
    const location *l = &outer->at[i.tid];
    for (int k = 0; k < r->s->devices.count; k++)
      if (l->storage == NO_INDEX || outer->storages[l->storage].block[k] == NO_INDEX)
        b->bound[k][i.tid] = (bound_tensor){0};
  }
  b->p = outer;
  schedule_release(r->s->x, p);
}
