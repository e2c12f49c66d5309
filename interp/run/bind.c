/* From offsets to addresses: the session's arenas, the memory budget, and where a schedule's blocks
 * and slots are. */
#include <stdlib.h>
#include <string.h>

#include "interp/plan/schedule_cache.h"
#include "interp/run/running.h"

/* ---------------------------------------------------------------- arenas */

static size_t chunk_size(const arena_chunks *a, uint32_t c) {
  return c < a->n && a->chunks[c] ? a->chunks[c]->bytes : 0;
}

/* Of the arena, with what this schedule adds to it. */
static uint64_t arena_need(const session *s, const schedule *p, int b) {
  const arena_chunks *a = &s->arenas[b];
  uint32_t n = a->n > p->n_chunks[b] ? a->n : p->n_chunks[b];
  uint64_t sum = 0;
  for (uint32_t c = 0; c < n; c++) {
    size_t have = chunk_size(a, c), want = c < p->n_chunks[b] ? p->chunk_bytes[b][c] : 0;
    sum += have > want ? have : want;
  }
  return sum;
}

static uint64_t form_need(const constant_store *c, const recording *r) {
  uint64_t sum = 0;
  for (int i = 0; r && i < r->n_forms; i++)
    if (!constant_store_has_form(c, &r->forms[i])) sum += r->forms[i].bytes;
  return sum;
}

/* Of constants and their forms, with those that this schedule is the first to use. Forms that
 * others have made are no matter of a lean one. */
static uint64_t constant_need(const session *s, const schedule *p, int b) {
  uint64_t sum = constant_store_bytes(s->stores[b]);
  if (p->is_lean) sum -= constant_store_form_bytes(s->stores[b]);
  for (uint32_t i = 0; i < p->n_blocks; i++) {
    const block *k = &p->blocks[i];
    if (k->kind == BLOCK_CONSTANT && k->backend == b && !constant_store_has(s->stores[b], k->slot))
      sum += k->a.bytes;
  }
  for (uint32_t i = 0; i < p->n_commands; i++)
    if (p->commands[i].backend == b) sum += form_need(s->stores[b], p->commands[i].recorded);
  return sum;
}

static size_t scratch_need(const session *s, const schedule *p, int b) {
  size_t have = s->scratch[b] ? s->scratch[b]->bytes : 0;
  return have > p->scratch_bytes[b] ? have : p->scratch_bytes[b];
}

typedef struct memory_need {
  uint64_t weights, state, arena, all, have; /* bytes; have: 0: not known */
} memory_need;

static memory_need need_of(const session *s, const schedule *p, int b) {
  memory_need n = {.weights = constant_need(s, p, b),
                   .state = s->state_bytes,
                   .arena = arena_need(s, p, b) + scratch_need(s, p, b),
                   .have = s->options.memory_budget};
  n.all = n.weights + n.state + n.arena;
  if (!n.have) n.have = s->devices.backends[b]->info.memory;
  return n;
}

static bool is_enough(memory_need n) { return !n.have || n.all <= n.have; }

bool fits_budget(const session *s, const schedule *p) {
  for (int b = 0; b < s->devices.count; b++)
    if (!is_enough(need_of(s, p, b))) return false;
  return true;
}

static clave_status check_budget(const session *s, const schedule *p, int b) {
  const memory_need n = need_of(s, p, b);
  if (is_enough(n)) return NULL;
  const double mb = 1.0 / (1024 * 1024);
  return status_new(STATUS_NO_MEMORY,
                    "needs %.1f MB on %s (weights %.1f, state %.1f, arena %.1f), it has %.1f; a "
                    "smaller input or batch, or weights in a "
                    "smaller dtype would help",
                    (double)n.all * mb, s->devices.backends[b]->info.name, (double)n.weights * mb,
                    (double)n.state * mb, (double)n.arena * mb, (double)n.have * mb);
}

/* A chunk grows by being made again: its contents matter only within a run, in which a schedule
 * grows its own chunks alone. */
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
  s->generation++;
  return be->vt->buffer_create(be, bytes, &a->chunks[c]);
}

/* Kernels that still use the old one keep it alive. */
static clave_status grow_scratch(session *s, int b, size_t bytes) {
  backend *be = s->devices.backends[b];
  if (!bytes || (s->scratch[b] && s->scratch[b]->bytes >= bytes)) return NULL;
  be->vt->buffer_destroy(be, s->scratch[b]);
  s->scratch[b] = NULL;
  return be->vt->buffer_create(be, bytes, &s->scratch[b]);
}

static clave_status grow_arenas(session *s, const schedule *p) {
  for (int b = 0; b < s->devices.count; b++) {
    TRY(check_budget(s, p, b));
    for (uint32_t c = 0; c < p->n_chunks[b]; c++)
      TRY(status_while(grow_chunk(s, b, c, p->chunk_bytes[b][c]), "the arena"));
    TRY(status_while(grow_scratch(s, b, p->scratch_bytes[b]), "scratch"));
  }
  return NULL;
}

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

/* ---------------------------------------------------------------- lifetime */

clave_status binding_create(session *s, schedule *p, binding **out) {
  size_t n = slot_count(s->prog);
  binding *b = *out = calloc(1, sizeof *b);
  bool good = b;
  for (int i = 0; good && i < s->devices.count; i++)
    good = (b->bound[i] = calloc(n + 2, sizeof *b->bound[i]));
  if (!good) {
    binding_destroy(s, b);
    *out = NULL;
    schedule_release(s->x, p);
    return status_no_memory();
  }
  b->root = p;
  return NULL;
}

static void drop_state(const session *s, command_state *c) {
  const backend_vtable *vt = s->devices.backends[c->backend]->vt;
  if (c->state) vt->state_destroy(s->streams[c->backend], c->state);
  *c = (command_state){0};
}

static void drop_carried(const session *s, carried_list *l) {
  for (uint32_t k = 0; k < l->n; k++) drop_state(s, &l->items[k].copy);
  free(l->items);
  *l = (carried_list){0};
}

void binding_destroy(session *s, binding *b) {
  if (!b) return;
  if (b->p != b->root) schedule_release(s->x, b->p);
  schedule_release(s->x, b->root);
  for (int i = 0; i < MAX_BACKENDS; i++) free(b->bound[i]);
  for (size_t i = 0; i < b->cap_commands; i++) drop_state(s, &b->commands[i]);
  for (size_t i = 0; i < b->cap_controls; i++) drop_carried(s, &b->carried[i]);
  free(b->carried);
  free(b->blocks);
  free(b->commands);
  free(b);
}

/* Zeroed room for n items. */
static clave_status grow_zeroed(void *array, size_t *capacity, size_t n, size_t size) {
  size_t had = *capacity;
  if (!array_reserve(array, capacity, n, size)) return status_no_memory();
  char *items;
  memcpy(&items, array, sizeof items);
  if (*capacity > had) memset(items + had * size, 0, (*capacity - had) * size);
  return NULL;
}

/* What loops of the current schedule carry. */
static clave_status make_carried(const running *r, uint32_t index) {
  carried_list *l = &r->b->carried[index];
  uint32_t n = r->b->p->controls[index]->n_results;
  if (l->n == n) return NULL;
  drop_carried(r->s, l);
  l->items = calloc(n + (size_t)1, sizeof *l->items);
  if (!l->items) return status_no_memory();
  l->n = n;
  return NULL;
}

/* Room for what the current schedule has. Its commands take the place of those of another that
 * followed the same one. */
static clave_status make_room(const running *r) {
  binding *b = r->b;
  const schedule *p = b->p;
  TRY(grow_zeroed(&b->blocks, &b->cap_blocks, p->n_blocks, sizeof *b->blocks));
  TRY(grow_zeroed(&b->commands, &b->cap_commands, p->n_commands, sizeof *b->commands));
  TRY(grow_zeroed(&b->carried, &b->cap_controls, p->n_controls, sizeof *b->carried));
  for (uint32_t i = p->first_control; i < p->n_controls; i++) TRY(make_carried(r, i));
  for (uint32_t i = p->first_command; i < p->n_commands; i++) {
    command_state *c = &b->commands[i];
    if (c->backend != p->commands[i].backend) drop_state(r->s, c);
    c->backend = p->commands[i].backend;
    c->checked = false;
  }
  return NULL;
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
  TRY(make_room(r));
  TRY(grow_arenas(r->s, p));
  TRY(bind_blocks(r));
  TRY(place_arguments(r));
  place_rebased(r);
  for (slot_iter i = slots_of(r->g, p->instructions); next_slot(&i);) bind_new_slot(r, i.tid);
  return NULL;
}

clave_status bind_root(const running *r) {
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

clave_status bind_next(const running *r, schedule *p, schedule **before) {
  binding *b = r->b;
  schedule *old = b->p;
  b->p = p;
  clave_status st = bind_own(r);
  if (st) {
    b->p = old;
    b->generation = 0;
    schedule_release(r->s->x, p);
  } else if (before) {
    *before = old;
  } else if (old != b->root) {
    schedule_release(r->s->x, old);
  }
  return st;
}

void bind_back(const running *r, schedule *before) {
  binding *b = r->b;
  schedule *p = b->p;
  restore_slots(r, (range){p->first_command, p->n_commands});
  for (slot_iter i = slots_of(r->g, p->instructions); next_slot(&i);) {
    const location *l = &before->at[i.tid];
    for (int k = 0; k < r->s->devices.count; k++)
      if (l->storage == NO_INDEX || before->storages[l->storage].block[k] == NO_INDEX)
        b->bound[k][i.tid] = (bound_tensor){0};
  }
  b->p = before;
  schedule_release(r->s->x, p);
}
