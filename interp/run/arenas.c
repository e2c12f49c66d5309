/* The session's arenas, which grow with the schedules that it runs, and the memory budget. */
#include "interp/run/arenas.h"

#include <stdlib.h>

static size_t chunk_size(const arena_chunks *chunks, uint32_t c) {
  return c < chunks->n && chunks->chunks[c] ? chunks->chunks[c]->bytes : 0;
}

/* Returns the size of the arena after growing for this schedule. */
static uint64_t arena_need(const session *session, const schedule *schedule, int b) {
  const arena_chunks *chunks = &session->arenas[b];
  uint32_t n = chunks->n > schedule->n_chunks[b] ? chunks->n : schedule->n_chunks[b];
  uint64_t sum = 0;
  for (uint32_t c = 0; c < n; c++) {
    size_t have = chunk_size(chunks, c),
           want = c < schedule->n_chunks[b] ? schedule->chunk_bytes[b][c] : 0;
    sum += have > want ? have : want;
  }
  return sum;
}

static uint64_t packed_need(const constant_store *store, const recording *recording) {
  uint64_t sum = 0;
  for (int i = 0; recording && i < recording->n_weights; i++)
    if (!constant_store_has_packed(store, &recording->weights[i]))
      sum += recording->weights[i].bytes;
  return sum;
}

/* Returns the bytes of plain and packed constants, including those that only this schedule adds.
 * For a low-memory schedule, the packed weights of other schedules are not counted. */
static uint64_t constant_need(const session *session, const schedule *schedule, int b) {
  uint64_t sum = constant_store_bytes(session->stores[b]);
  if (schedule->low_memory) sum -= constant_store_packed_bytes(session->stores[b]);
  for (uint32_t i = 0; i < schedule->n_blocks; i++) {
    const block *block = &schedule->blocks[i];
    if (block->kind == BLOCK_CONSTANT && block->backend == b &&
        !constant_store_has(session->stores[b], block->slot))
      sum += block->a.bytes;
  }
  for (uint32_t i = 0; i < schedule->n_commands; i++)
    if (schedule->commands[i].backend == b)
      sum += packed_need(session->stores[b], schedule->commands[i].recorded);
  return sum;
}

static size_t scratch_need(const session *session, const schedule *schedule, int b) {
  size_t have = session->scratch[b] ? session->scratch[b]->bytes : 0;
  return have > schedule->scratch_bytes[b] ? have : schedule->scratch_bytes[b];
}

typedef struct memory_need {
  uint64_t weights, state, arena, all, have; /* bytes; have 0: unknown */
} memory_need;

static memory_need need_of(const session *session, const schedule *schedule, int b) {
  memory_need need = {
      .weights = constant_need(session, schedule, b),
      .state = session->state_bytes,
      .arena = arena_need(session, schedule, b) + scratch_need(session, schedule, b),
      .have = session->options.memory_budget};
  need.all = need.weights + need.state + need.arena;
  if (!need.have) need.have = session->devices.backends[b]->info.memory;
  return need;
}

static bool is_enough(memory_need need) { return !need.have || need.all <= need.have; }

bool fits_budget(const session *session, const schedule *schedule) {
  for (int b = 0; b < session->devices.count; b++)
    if (!is_enough(need_of(session, schedule, b))) return false;
  return true;
}

static clave_status check_budget(const session *session, const schedule *schedule, int b) {
  const memory_need need = need_of(session, schedule, b);
  if (is_enough(need)) return NULL;
  const double mb = 1.0 / (1024 * 1024);
  return status_new(STATUS_NO_MEMORY,
                    "the run needs %.1f MB on %s (weights %.1f, state %.1f, arena %.1f), which has "
                    "%.1f MB; use smaller inputs, a smaller batch or weights in a smaller dtype",
                    (double)need.all * mb, session->devices.backends[b]->info.name,
                    (double)need.weights * mb, (double)need.state * mb, (double)need.arena * mb,
                    (double)need.have * mb);
}

/* Grows a chunk by allocating it again, without its contents: these are needed only within a run,
 * and a following schedule grows only its own chunks. */
static clave_status grow_chunk(session *session, int b, uint32_t c, size_t bytes) {
  arena_chunks *chunks = &session->arenas[b];
  backend *be = session->devices.backends[b];
  if (c >= chunks->n) {
    buffer **more = realloc(chunks->chunks, (c + 1) * sizeof *more);
    if (!more) return status_no_memory();
    chunks->chunks = more;
    while (chunks->n <= c) more[chunks->n++] = NULL;
  }
  if (chunks->chunks[c] && chunks->chunks[c]->bytes >= bytes) return NULL;
  device_fault ignored;
  TRY(be->vt->finish(session->streams[b], &ignored));
  be->vt->buffer_destroy(be, chunks->chunks[c]);
  chunks->chunks[c] = NULL;
  session->generation++;
  return be->vt->buffer_create(be, bytes, &chunks->chunks[c]);
}

/* Kernels that still use the old scratch memory keep it alive. */
static clave_status grow_scratch(session *session, int b, size_t bytes) {
  backend *be = session->devices.backends[b];
  if (!bytes || (session->scratch[b] && session->scratch[b]->bytes >= bytes)) return NULL;
  be->vt->buffer_destroy(be, session->scratch[b]);
  session->scratch[b] = NULL;
  return be->vt->buffer_create(be, bytes, &session->scratch[b]);
}

clave_status grow_arenas(session *session, const schedule *schedule) {
  for (int b = 0; b < session->devices.count; b++) {
    TRY(check_budget(session, schedule, b));
    for (uint32_t c = 0; c < schedule->n_chunks[b]; c++)
      TRY(status_while(grow_chunk(session, b, c, schedule->chunk_bytes[b][c]), "the arena"));
    TRY(status_while(grow_scratch(session, b, schedule->scratch_bytes[b]), "scratch"));
  }
  return NULL;
}
