/* The offset planner. It visits blocks in order of `first`. Blocks whose last use has passed return
 * to a free list, which merges neighbours. A new block gets the smallest hole that fits; if there
 * is none, the last chunk grows or a new chunk begins. */
#include "interp/plan/arena.h"

#include <stdlib.h>
#include <string.h>

typedef struct hole {
  uint32_t chunk;
  size_t offset, bytes;
} hole;

typedef struct sweep {
  hole *holes; /* sorted by chunk and offset */
  size_t n_holes;
  arena_block **dying; /* min-heap by last */
  size_t n_dying;
  size_t alignment, max_chunk;
  arena_layout *layout;
} sweep;

static int by_birth(const void *left, const void *right) {
  const arena_block *block = *(arena_block *const *)left, *y = *(arena_block *const *)right;
  if (block->first != y->first) return block->first < y->first ? -1 : 1;
  if (block->bytes != y->bytes) return block->bytes > y->bytes ? -1 : 1;
  return block < y ? -1 : block > y; /* by array order, so that the plan is deterministic */
}

static void push_dying(sweep *sweep, arena_block *block) {
  size_t i = sweep->n_dying++;
  for (; i && sweep->dying[(i - 1) / 2]->last > block->last; i = (i - 1) / 2)
    sweep->dying[i] = sweep->dying[(i - 1) / 2];
  sweep->dying[i] = block;
}

static arena_block *pop_dying(sweep *sweep) {
  arena_block *top = sweep->dying[0], *moved = sweep->dying[--sweep->n_dying];
  size_t i = 0, child;
  while ((child = 2 * i + 1) < sweep->n_dying) {
    if (child + 1 < sweep->n_dying && sweep->dying[child + 1]->last < sweep->dying[child]->last)
      child++;
    if (sweep->dying[child]->last >= moved->last) break;
    sweep->dying[i] = sweep->dying[child];
    i = child;
  }
  sweep->dying[i] = moved;
  return top;
}

static size_t find_hole(const sweep *sweep, uint32_t chunk, size_t offset) {
  size_t low = 0, high = sweep->n_holes;
  while (low < high) {
    size_t mid = (low + high) / 2;
    const hole *hole = &sweep->holes[mid];
    if (hole->chunk < chunk || (hole->chunk == chunk && hole->offset < offset)) {
      low = mid + 1;
    } else {
      high = mid;
    }
  }
  return low;
}

static void drop_hole(sweep *sweep, size_t i) {
  memmove(&sweep->holes[i], &sweep->holes[i + 1], (sweep->n_holes - i - 1) * sizeof(hole));
  sweep->n_holes--;
}

static void arena_release(sweep *sweep, hole gap) {
  size_t i = find_hole(sweep, gap.chunk, gap.offset);
  if (i < sweep->n_holes && sweep->holes[i].chunk == gap.chunk &&
      gap.offset + gap.bytes == sweep->holes[i].offset) {
    gap.bytes += sweep->holes[i].bytes;
    drop_hole(sweep, i);
  }
  if (i > 0 && sweep->holes[i - 1].chunk == gap.chunk &&
      sweep->holes[i - 1].offset + sweep->holes[i - 1].bytes == gap.offset) {
    sweep->holes[i - 1].bytes += gap.bytes;
    return;
  }
  memmove(&sweep->holes[i + 1], &sweep->holes[i], (sweep->n_holes - i) * sizeof(hole));
  sweep->holes[i] = gap;
  sweep->n_holes++;
}

static bool take_best_hole(sweep *sweep, arena_block *block, size_t bytes) {
  size_t best = sweep->n_holes;
  for (size_t i = 0; i < sweep->n_holes; i++)
    if (sweep->holes[i].bytes >= bytes &&
        (best == sweep->n_holes || sweep->holes[i].bytes < sweep->holes[best].bytes))
      best = i;
  if (best == sweep->n_holes) return false;
  hole *hole = &sweep->holes[best];
  block->chunk = hole->chunk;
  block->offset = hole->offset;
  hole->offset += bytes;
  hole->bytes -= bytes;
  if (!hole->bytes) drop_hole(sweep, best);
  return true;
}

/* Grows the last chunk, using up a hole at its end first; else begins a new chunk. */
static clave_status arena_grow(sweep *sweep, arena_block *block, size_t bytes) {
  arena_layout *layout = sweep->layout;
  if (bytes > sweep->max_chunk)
    return status_new(STATUS_NO_MEMORY,
                      "a tensor of %zu bytes exceeds the device's largest allocation, %zu bytes",
                      block->bytes, sweep->max_chunk);
  if (layout->n_chunks) {
    uint32_t c = layout->n_chunks - 1;
    size_t end = layout->chunk_bytes[c], tail = 0;
    const hole *hole = sweep->n_holes ? &sweep->holes[sweep->n_holes - 1] : NULL;
    if (hole && hole->chunk == c && hole->offset + hole->bytes == end) tail = hole->bytes;
    if (end - tail + bytes <= sweep->max_chunk) {
      if (tail) sweep->n_holes--;
      block->chunk = c;
      block->offset = end - tail;
      layout->chunk_bytes[c] = end - tail + bytes;
      return NULL;
    }
  }
  size_t *more = realloc(layout->chunk_bytes, (layout->n_chunks + 1) * sizeof *more);
  if (!more) return status_no_memory();
  layout->chunk_bytes = more;
  more[layout->n_chunks] = bytes;
  block->chunk = layout->n_chunks++;
  block->offset = 0;
  return NULL;
}

static clave_status arena_place_one(sweep *sweep, arena_block *block) {
  while (sweep->n_dying && sweep->dying[0]->last < block->first) {
    arena_block *dead = pop_dying(sweep);
    arena_release(
        sweep, (hole){dead->chunk, dead->offset,
                      (dead->bytes + sweep->alignment - 1) / sweep->alignment * sweep->alignment});
  }
  if (block->bytes > SIZE_MAX - sweep->alignment) return status_no_memory();
  size_t bytes = (block->bytes + sweep->alignment - 1) / sweep->alignment * sweep->alignment;
  if (!bytes) bytes = sweep->alignment;
  if (!take_best_hole(sweep, block, bytes)) TRY(arena_grow(sweep, block, bytes));
  if (block->bytes) push_dying(sweep, block);
  return NULL;
}

clave_status arena_place(arena_block **blocks, size_t n, size_t alignment, size_t max_chunk,
                         arena_layout *out) {
  *out = (arena_layout){0};
  if (!n) return NULL;
  sweep sweep = {
      .alignment = alignment, .max_chunk = max_chunk / alignment * alignment, .layout = out};
  sweep.holes = malloc((n + 1) * sizeof *sweep.holes);
  sweep.dying = malloc(n * sizeof *sweep.dying);
  clave_status st = sweep.holes && sweep.dying ? NULL : status_no_memory();
  if (!st) qsort(blocks, n, sizeof *blocks, by_birth);
  for (size_t i = 0; i < n && !st; i++) st = arena_place_one(&sweep, blocks[i]);
  free(sweep.holes);
  free(sweep.dying);
  if (st) arena_layout_free(out);
  return st;
}

void arena_layout_free(arena_layout *layout) {
  free(layout->chunk_bytes);
  *layout = (arena_layout){0};
}
