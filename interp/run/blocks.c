/* Where the last run of a method kept what: the blocks of its schedule, for pictures. */
#include "interp/run/bindings.h"

/* The schedule of the last run; NULL: there was none. */
static const schedule *last_schedule(const session *s, uint32_t index) {
  const method_state *m = &s->methods[index];
  return m->has_run && m->bindings[0] ? m->bindings[0]->p : NULL;
}

static bool is_placed(const block *k) { return k->kind == BLOCK_ARENA && k->a.bytes; }

static bool lies_in(const schedule *p, uint32_t number, uint32_t at) {
  for (int b = 0; number != NO_INDEX && b < p->devices->count; b++)
    if (p->storages[number].block[b] == at) return true;
  return false;
}

/* The first tensor that lies in a block, preferably one that others see. */
static uint32_t find_slot(const schedule *p, uint32_t at) {
  for (uint32_t tid = 0; tid < slot_count(p->prog); tid++)
    if (lies_in(p, p->at[tid].storage, at)) return tid;
  return IR_NONE;
}

static uint32_t node_of(const session *s, uint32_t index, const schedule *p, uint32_t at_command) {
  const graph *g = &s->x->methods[index].g;
  return node_number(g, at_command < p->n_commands ? p->commands[at_command].instruction : g->n);
}

clave_status session_count_blocks(const session *s, uint32_t index, uint32_t *blocks,
                                  uint32_t *commands) {
  const schedule *p = last_schedule(s, index);
  if (!p) return INVALID("the method has not run");
  *blocks = 0;
  *commands = p->n_commands;
  for (uint32_t i = 0; i < p->n_blocks; i++) *blocks += is_placed(&p->blocks[i]);
  return NULL;
}

clave_status session_find_block(const session *s, uint32_t index, uint32_t number,
                                session_block *out) {
  const schedule *p = last_schedule(s, index);
  if (!p) return INVALID("the method has not run");
  for (uint32_t i = 0, k = 0; i < p->n_blocks; i++) {
    const block *b = &p->blocks[i];
    if (!is_placed(b) || k++ != number) continue;
    const uint32_t last = p->n_commands ? p->n_commands - 1 : 0;
    *out = (session_block){.device = p->devices->backends[b->backend]->info.kind,
                           .slot = find_slot(p, i),
                           .chunk = b->a.chunk,
                           .first = b->a.first,
                           .last = b->a.last < last ? b->a.last : last,
                           .node = node_of(s, index, p, b->a.first),
                           .offset = b->a.offset,
                           .bytes = b->a.bytes};
    return NULL;
  }
  return INVALID("block %u of a plan with fewer", number);
}
