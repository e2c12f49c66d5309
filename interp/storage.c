/* Storages at their first use: constants, inputs and state, and transfers between devices. */
#include "interp/internal.h"

/* Constants and inputs come from the host to whichever device asks; what a device wrote is
 * transferred. */
static clave_status bring(session *s, plan *p, uint32_t index, int b, uint32_t instruction) {
  storage *g = &p->storages[index];
  uint32_t blk;
  if (g->home == NO_HOME && is_constant_slot(s, g->slot)) {
    TRY(add_block(p, BLOCK_CONSTANT, (uint8_t)b, g->bytes, &blk));
    g->block[b] = blk;
    return constant_store_get(s->stores[b], g->slot, &p->blocks[blk].buf);
  }
  TRY(add_block(p, BLOCK_ARENA, (uint8_t)b, g->bytes, &blk));
  g->block[b] = blk;
  if (g->home == NO_HOME) {
    p->blocks[blk].a.first = 0; /* written before the first step */
    return NULL;
  }
  step t = {.kind = STEP_TRANSFER,
            .backend = (uint8_t)b,
            .instruction = instruction,
            .x.storage = index,
            .rebind = NO_INDEX};
  block *from = &p->blocks[g->block[g->home]];
  if (!from->phase) from->a.last = p->n_steps;
  return add_step(p, t);
}

clave_status need_storage(session *s, plan *p, uint32_t index, int b, uint32_t instruction) {
  if (p->storages[index].block[b] == NO_INDEX) TRY(bring(s, p, index, b, instruction));
  block *k = &p->blocks[p->storages[index].block[b]];
  if (!k->phase && k->a.last < p->n_steps) k->a.last = p->n_steps;
  return NULL;
}

clave_status touch_slot(session *s, method *m, plan *p, uint32_t tid) {
  location *l = &p->now[tid];
  if (l->storage != NO_INDEX) return NULL;
  l->t = p->types[tid];
  tensor_set_contiguous(&l->t);
  size_t bytes;
  TRY(known_bytes(&l->t, &bytes));
  uint8_t home = is_state_slot(s, tid) ? s->state_home[tid - first_state(s)] : NO_HOME;
  TRY(add_storage(p, bytes, home, tid, &l->storage));
  p->storages[l->storage].last_use = m->last_use[tid];
  if (home != NO_HOME) {
    uint32_t blk;
    TRY(add_block(p, BLOCK_STATE, home, bytes, &blk));
    p->storages[l->storage].block[home] = blk;
    p->blocks[blk].buf = s->state[tid - first_state(s)];
  }
  p->at[tid] = *l;
  return NULL;
}
