/* Storages at their first use: constants, inputs and state, results, and transfers between devices.
 */
#include "interp/plan/storage.h"

bool holds_constant(const planner *l, const storage *g) {
  return g->home == NO_HOME && !is_slot(l->x->prog, g->slot, SLOT_INPUT);
}

/* Constants and inputs come from the host to whichever device asks; what a device wrote is
 * transferred. */
static clave_status make_readable(planner *l, uint32_t index, int b, uint32_t instruction) {
  schedule *p = l->p;
  storage *g = &p->storages[index];
  uint32_t made;
  bool is_constant = holds_constant(l, g);
  TRY(add_block(p, is_constant ? BLOCK_CONSTANT : BLOCK_ARENA, (uint8_t)b, g->bytes, g->slot,
                &made));
  g->block[b] = made;
  if (is_constant) return NULL;
  if (g->home == NO_HOME) {
    p->blocks[made].a.first = 0; /* written before the first command */
    return NULL;
  }
  block *from = &p->blocks[g->block[g->home]];
  if (!from->part) from->a.last = p->n_commands;
  return add_command(p, (command){.kind = COMMAND_TRANSFER,
                                  .backend = (uint8_t)b,
                                  .instruction = instruction,
                                  .x.storage = index,
                                  .rebind = NO_INDEX});
}

clave_status materialize(planner *l, uint32_t index, int b, uint32_t instruction) {
  schedule *p = l->p;
  if (p->storages[index].block[b] == NO_INDEX) TRY(make_readable(l, index, b, instruction));
  block *k = &p->blocks[p->storages[index].block[b]];
  if (!k->part && k->a.last < p->n_commands) k->a.last = p->n_commands;
  return NULL;
}

clave_status import_slot(planner *l, uint32_t tid) {
  schedule *p = l->p;
  location *at = &p->now[tid];
  if (at->storage != NO_INDEX) return NULL;
  at->t = p->types[tid];
  tensor_set_contiguous(&at->t);
  size_t bytes;
  TRY(known_bytes(&at->t, &bytes));
  bool is_state = is_slot(l->x->prog, tid, SLOT_STATE);
  uint8_t home = is_state ? l->x->state_home[tid - first_state(l->x->prog)] : NO_HOME;
  TRY(add_storage(p, bytes, home, tid, &at->storage));
  p->storages[at->storage].last_use = l->g->last_use[tid];
  if (is_state) {
    uint32_t made;
    TRY(add_block(p, BLOCK_STATE, home, bytes, tid, &made));
    p->storages[at->storage].block[home] = made;
  }
  p->at[tid] = *at;
  return NULL;
}

clave_status new_place(schedule *p, const tensor *t, int b, uint32_t last_use, location *out) {
  size_t bytes;
  uint32_t made;
  out->t = *t;
  tensor_set_contiguous(&out->t);
  TRY(known_bytes(t, &bytes));
  TRY(add_storage(p, bytes, (uint8_t)b, NO_INDEX, &out->storage));
  TRY(add_block(p, BLOCK_ARENA, (uint8_t)b, bytes, NO_INDEX, &made));
  p->storages[out->storage].block[b] = made;
  p->storages[out->storage].last_use = last_use;
  return NULL;
}

void set_location(schedule *p, uint32_t tid, location l) { p->at[tid] = p->now[tid] = l; }

uint32_t later_use(uint32_t a, uint32_t b) {
  if (a == NO_INDEX) return b;
  return b != NO_INDEX && b > a ? b : a;
}
