/* The offset planner. It visits blocks in order of `first`. The memory of blocks whose last use has
 * passed returns to a free list, which merges neighbours. A new block gets the smallest hole that
 * fits; if none fits, the last chunk grows or a new chunk begins. */
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
  arena_block **live; /* blocks in use, as a min-heap by `last` */
  size_t n_live;
  size_t alignment, max_chunk;
  arena_layout *layout;
} sweep;

static int by_first_use(const void *left, const void *right) {
  const arena_block *block = *(arena_block *const *)left, *y = *(arena_block *const *)right;
  if (block->first != y->first) return block->first < y->first ? -1 : 1;
  if (block->bytes != y->bytes) return block->bytes > y->bytes ? -1 : 1;
  return block < y ? -1 : block > y; /* by array order, so that the plan is deterministic */
}

static void push_live(sweep *sweep, arena_block *block) {
  size_t i = sweep->n_live++;
  for (; i && sweep->live[(i - 1) / 2]->last > block->last; i = (i - 1) / 2)
    sweep->live[i] = sweep->live[(i - 1) / 2];
  sweep->live[i] = block;
}

static arena_block *pop_live(sweep *sweep) {
  arena_block *top = sweep->live[0], *moved = sweep->live[--sweep->n_live];
  size_t i = 0, child;
  while ((child = 2 * i + 1) < sweep->n_live) {
    if (child + 1 < sweep->n_live && sweep->live[child + 1]->last < sweep->live[child]->last)
      child++;
    if (sweep->live[child]->last >= moved->last) break;
    sweep->live[i] = sweep->live[child];
    i = child;
  }
  sweep->live[i] = moved;
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

static bool use_best_hole(sweep *sweep, arena_block *block, size_t bytes) {
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

/* Places the block at the end of the last chunk, in the hole there if any, and grows the chunk;
 * begins a new chunk if it would become too large. */
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
  while (sweep->n_live && sweep->live[0]->last < block->first) {
    arena_block *dead = pop_live(sweep);
    arena_release(
        sweep, (hole){dead->chunk, dead->offset,
                      (dead->bytes + sweep->alignment - 1) / sweep->alignment * sweep->alignment});
  }
  if (block->bytes > SIZE_MAX - sweep->alignment) return status_no_memory();
  size_t bytes = (block->bytes + sweep->alignment - 1) / sweep->alignment * sweep->alignment;
  if (!bytes) bytes = sweep->alignment;
  if (!use_best_hole(sweep, block, bytes)) TRY(arena_grow(sweep, block, bytes));
  if (block->bytes) push_live(sweep, block);
  return NULL;
}

clave_status arena_place(arena_block **blocks, size_t n, size_t alignment, size_t max_chunk,
                         arena_layout *out) {
  *out = (arena_layout){0};
  if (!n) return NULL;
  sweep sweep = {
      .alignment = alignment, .max_chunk = max_chunk / alignment * alignment, .layout = out};
  sweep.holes = malloc((n + 1) * sizeof *sweep.holes);
  sweep.live = malloc(n * sizeof *sweep.live);
  clave_status st = sweep.holes && sweep.live ? NULL : status_no_memory();
  if (!st) qsort(blocks, n, sizeof *blocks, by_first_use);
  for (size_t i = 0; i < n && !st; i++) st = arena_place_one(&sweep, blocks[i]);
  free(sweep.holes);
  free(sweep.live);
  if (st) arena_layout_free(out);
  return st;
}

void arena_layout_free(arena_layout *layout) {
  free(layout->chunk_bytes);
  *layout = (arena_layout){0};
}
