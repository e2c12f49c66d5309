/* From offsets to addresses: the session's arenas, the memory budget, and the bound slots of a
 * plan. */
#include <stdlib.h>

#include "interp/internal.h"

bound_tensor bind_location(const session *s, const plan *p, location l, int b) {
  bound_tensor r = {.t = l.t};
  const block *k = &p->blocks[p->storages[l.storage].block[b]];
  if (k->kind == BLOCK_ARENA) {
    r.buf = s->arenas[b].chunks[k->a.chunk];
    r.buffer_offset = k->a.offset;
  } else {
    r.buf = k->buf;
    if (k->kind == BLOCK_MOVING) r.buffer_offset = k->a.offset;
  }
  return r;
}

static clave_status check_budget(const session *s, int b, uint64_t arena) {
  const backend_info *info = &s->devices.backends[b]->info;
  uint64_t have = s->options.memory_budget ? s->options.memory_budget : info->memory;
  uint64_t weights = constant_store_bytes(s->stores[b]);
  uint64_t need = weights + s->state_bytes + arena;
  if (!have || need <= have) return NULL;
  const double mb = 1.0 / (1024 * 1024);
  return status_new(STATUS_NO_MEMORY,
                    "needs %.1f MB on %s (weights %.1f, state %.1f, arena %.1f), it has %.1f; a "
                    "smaller input or batch, or weights in a "
                    "smaller dtype would help",
                    (double)need * mb, info->name, (double)weights * mb,
                    (double)s->state_bytes * mb, (double)arena * mb, (double)have * mb);
}

static size_t chunk_size(const arena_chunks *a, uint32_t c) {
  return c < a->n && a->chunks[c] ? a->chunks[c]->bytes : 0;
}

static uint64_t arena_need(const session *s, const plan *p, int b) {
  uint64_t sum = 0;
  uint32_t c = 0;
  for (uint32_t i = 0; i < p->n_phases; i++)
    for (uint32_t k = 0; k < p->phases[i].layout[b].n_chunks; k++, c++) {
      size_t have = chunk_size(&s->arenas[b], c), want = p->phases[i].layout[b].chunk_bytes[k];
      sum += have > want ? have : want;
    }
  for (; c < s->arenas[b].n; c++) sum += chunk_size(&s->arenas[b], c);
  return sum;
}

/* A chunk grows by being made again: its contents matter only within a run, and a phase grows only
 * its own chunks. */
static clave_status grow_chunk(session *s, int b, uint32_t c, size_t bytes) {
  arena_chunks *a = &s->arenas[b];
  backend *be = s->devices.backends[b];
  if (c >= a->n) {
    buffer **more = realloc(a->chunks, (c + 1) * sizeof *more);
    if (!more) return status_no_memory();
    a->chunks = more;
    while (a->n <= c) more[a->n++] = NULL;
  }
  if (a->chunks[c] && a->chunks[c]->bytes >= bytes) return NULL;
  device_fault ignored;
  TRY(be->vt->finish(s->streams[b], &ignored));
  be->vt->buffer_destroy(be, a->chunks[c]);
  a->chunks[c] = NULL;
  s->arena_generation++;
  return be->vt->buffer_create(be, bytes, &a->chunks[c]);
}

static clave_status grow_arenas(session *s, const plan *p) {
  for (int b = 0; b < s->devices.count; b++) {
    TRY(check_budget(s, b, arena_need(s, p, b)));
    for (uint32_t i = 0; i < p->n_phases; i++)
      for (uint32_t k = 0; k < p->phases[i].layout[b].n_chunks; k++)
        TRY(status_while(grow_chunk(s, b, p->phases[i].first_chunk[b] + k,
                                    p->phases[i].layout[b].chunk_bytes[k]),
                         "the arena"));
  }
  return NULL;
}

void rebind_slot(const session *s, plan *p, uint32_t slot, location l) {
  const storage *g = &p->storages[l.storage];
  for (int b = 0; b < s->devices.count; b++)
    if (g->block[b] != NO_INDEX) p->bound[b][slot] = bind_location(s, p, l, b);
}

void restore_slots(const session *s, plan *p, span steps) {
  for (uint32_t i = steps.first; i < steps.end; i++)
    if (p->steps[i].kind == STEP_COPY && p->steps[i].rebind != NO_INDEX)
      rebind_slot(s, p, p->steps[i].rebind, p->at[p->steps[i].rebind]);
}

/* ---------------------------------------------------------------- moving blocks */

static void move_block(plan *p, uint32_t moved, uint8_t home, const bound_tensor *to,
                       int64_t bytes) {
  block *k = &p->blocks[p->storages[moved].block[home]];
  int64_t offset = (int64_t)to->buffer_offset + to->t.offset * (int64_t)dtype_size(to->t.type);
  k->buf = to->buf;
  k->a.offset = (size_t)(offset + bytes);
}

static void move_to(const session *s, plan *p, uint32_t moved, uint8_t home, uint32_t from) {
  bound_tensor to = bind_location(s, p, (location){.storage = from}, home);
  move_block(p, moved, home, &to, 0);
}

void begin_carries(control *c) {
  for (uint32_t k = 0; k < c->n_ties; k++) c->ties[k].current = c->ties[k].first;
}

/* Carries before slices: a stacked carry is where the slice was in the last step. */
void move_blocks(const session *s, plan *p, const control *c, int64_t i) {
  for (uint32_t k = 0; k < c->n_ties; k++) {
    const tie *t = &c->ties[k];
    if (!t->is_carry) continue;
    move_to(s, p, t->arg, t->home, t->current);
    if (t->current == t->spare || t->current == t->result)
      move_to(s, p, t->target, t->home, t->current == t->spare ? t->result : t->spare);
  }
  for (uint32_t k = 0; k < c->n_slices; k++) {
    const slices *x = &c->slices[k];
    bound_tensor whole = bind_location(s, p, x->whole, x->home);
    move_block(p, x->storage, x->home, &whole, i * x->stride);
  }
  for (uint32_t k = 0; k < c->n_moved; k++) rebind_slot(s, p, c->moved[k], p->at[c->moved[k]]);
}

/* ---------------------------------------------------------------- plans */

static void place_controls(const session *s, plan *p, uint32_t first) {
  for (uint32_t i = first; i < p->n_controls; i++) {
    begin_carries(p->controls[i]);
    move_blocks(s, p, p->controls[i], 0);
  }
}

clave_status bind_plan(session *s, plan *p) {
  TRY(grow_arenas(s, p));
  place_controls(s, p, 0);
  for (uint32_t tid = 0; tid < slot_count(s); tid++)
    if (p->at[tid].storage != NO_INDEX) rebind_slot(s, p, tid, p->at[tid]);
  p->arena_generation = s->arena_generation + 1;
  return NULL;
}

typedef struct slot_binding {
  const session *s;
  plan *p;
  const phase *ph;
} slot_binding;

/* Slots of earlier phases are bound already, but not on a backend that reads them only now. They
 * may have been moved by copies since they were produced. */
static void bind_new_slot(void *ctx, uint32_t tid) {
  const slot_binding *x = ctx;
  bool moved = x->p->now[tid].storage < x->ph->first_storage;
  const location *l = moved ? &x->p->now[tid] : &x->p->at[tid];
  if (l->storage == NO_INDEX) return;
  for (int b = 0; b < x->s->devices.count; b++)
    if (x->p->storages[l->storage].block[b] != NO_INDEX && !x->p->bound[b][tid].buf)
      x->p->bound[b][tid] = bind_location(x->s, x->p, *l, b);
}

clave_status bind_phase(session *s, const method *m, plan *p, const phase *ph) {
  slot_binding x = {s, p, ph};
  TRY(grow_arenas(s, p));
  place_controls(s, p, ph->first_control);
  for_each_slot(s, m, ph->instructions, bind_new_slot, &x);
  p->arena_generation = s->arena_generation + 1;
  return NULL;
}
