/* The session's arenas, which grow with the schedules that it runs, and the memory budget. */
#include "interp/run/arenas.h"

#include <stdlib.h>

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

static uint64_t packed_need(const constant_store *c, const recording *r) {
  uint64_t sum = 0;
  for (int i = 0; r && i < r->n_weights; i++)
    if (!constant_store_has_packed(c, &r->weights[i])) sum += r->weights[i].bytes;
  return sum;
}

/* Bytes of plain and packed constants, with those that this schedule is the first to use. A lean
 * schedule does not count the packed weights that others have made. */
static uint64_t constant_need(const session *s, const schedule *p, int b) {
  uint64_t sum = constant_store_bytes(s->stores[b]);
  if (p->is_lean) sum -= constant_store_packed_bytes(s->stores[b]);
  for (uint32_t i = 0; i < p->n_blocks; i++) {
    const block *k = &p->blocks[i];
    if (k->kind == BLOCK_CONSTANT && k->backend == b && !constant_store_has(s->stores[b], k->slot))
      sum += k->a.bytes;
  }
  for (uint32_t i = 0; i < p->n_commands; i++)
    if (p->commands[i].backend == b) sum += packed_need(s->stores[b], p->commands[i].recorded);
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

clave_status grow_arenas(session *s, const schedule *p) {
  for (int b = 0; b < s->devices.count; b++) {
    TRY(check_budget(s, p, b));
    for (uint32_t c = 0; c < p->n_chunks[b]; c++)
      TRY(status_while(grow_chunk(s, b, c, p->chunk_bytes[b][c]), "the arena"));
    TRY(status_while(grow_scratch(s, b, p->scratch_bytes[b]), "scratch"));
  }
  return NULL;
}
