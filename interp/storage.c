/* The plan's tables: blocks of memory, storages (versions of bytes in blocks) and steps; first
 * touches and transfers. */
#include <stdlib.h>
#include <string.h>

#include "interp/internal.h"

clave_status grow_array(void **array, uint32_t *capacity, uint32_t count, size_t size) {
  if (count < *capacity) return NULL;
  uint32_t more = *capacity ? *capacity * 2 : 64;
  void *p = realloc(*array, (size_t)more * size);
  if (!p) return status_no_memory();
  *array = p;
  *capacity = more;
  return NULL;
}

clave_status add_block(plan *p, uint8_t kind, uint8_t on, size_t bytes, uint32_t *out) {
  TRY(grow_array((void **)&p->blocks, &p->cap_blocks, p->n_blocks, sizeof *p->blocks));
  p->blocks[p->n_blocks] = (block){
      .a = {.bytes = bytes, .first = p->n_steps, .last = p->n_steps}, .kind = kind, .backend = on};
  *out = p->n_blocks++;
  return NULL;
}

clave_status add_storage(plan *p, size_t bytes, uint8_t home, uint32_t slot, uint32_t *out) {
  TRY(grow_array((void **)&p->storages, &p->cap_storages, p->n_storages, sizeof *p->storages));
  storage *g = &p->storages[p->n_storages];
  *g = (storage){.home = home, .slot = slot, .bytes = bytes, .last_use = NO_INDEX};
  for (int b = 0; b < MAX_BACKENDS; b++) g->block[b] = NO_INDEX;
  *out = p->n_storages++;
  return NULL;
}

clave_status add_step(plan *p, step st) {
  TRY(grow_array((void **)&p->steps, &p->cap_steps, p->n_steps, sizeof *p->steps));
  p->steps[p->n_steps++] = st;
  return NULL;
}

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
