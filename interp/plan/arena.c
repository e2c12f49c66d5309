/* The offset planner: blocks are born in order of `first`; those that died before go back to a free
 * list whose neighbours merge; a newborn takes the smallest hole that fits, else its chunk grows,
 * else a new chunk begins. */
#include "interp/plan/arena.h"

#include <stdlib.h>
#include <string.h>

typedef struct hole {
  uint32_t chunk;
  size_t offset, bytes;
} hole;

typedef struct sweep {
  hole *holes; /* sorted by chunk, offset */
  size_t n_holes;
  arena_block **dying; /* min-heap by last */
  size_t n_dying;
  size_t alignment, max_chunk;
  arena_layout *layout;
} sweep;

static int by_birth(const void *a, const void *b) {
  const arena_block *x = *(arena_block *const *)a, *y = *(arena_block *const *)b;
  if (x->first != y->first) return x->first < y->first ? -1 : 1;
  if (x->bytes != y->bytes) return x->bytes > y->bytes ? -1 : 1;
  return x < y ? -1 : x > y; /* the array's own order: the same plan every time */
}

static void push_dying(sweep *s, arena_block *b) {
  size_t i = s->n_dying++;
  for (; i && s->dying[(i - 1) / 2]->last > b->last; i = (i - 1) / 2)
    s->dying[i] = s->dying[(i - 1) / 2];
  s->dying[i] = b;
}

static arena_block *pop_dying(sweep *s) {
  arena_block *top = s->dying[0], *moved = s->dying[--s->n_dying];
  size_t i = 0, child;
  while ((child = 2 * i + 1) < s->n_dying) {
    if (child + 1 < s->n_dying && s->dying[child + 1]->last < s->dying[child]->last) child++;
    if (s->dying[child]->last >= moved->last) break;
    s->dying[i] = s->dying[child];
    i = child;
  }
  s->dying[i] = moved;
  return top;
}

static size_t find_hole(const sweep *s, uint32_t chunk, size_t offset) {
  size_t low = 0, high = s->n_holes;
  while (low < high) {
    size_t mid = (low + high) / 2;
    const hole *h = &s->holes[mid];
    if (h->chunk < chunk || (h->chunk == chunk && h->offset < offset)) {
      low = mid + 1;
    } else {
      high = mid;
    }
  }
  return low;
}

static void drop_hole(sweep *s, size_t i) {
  memmove(&s->holes[i], &s->holes[i + 1], (s->n_holes - i - 1) * sizeof(hole));
  s->n_holes--;
}

static void release(sweep *s, hole h) {
  size_t i = find_hole(s, h.chunk, h.offset);
  if (i < s->n_holes && s->holes[i].chunk == h.chunk && h.offset + h.bytes == s->holes[i].offset) {
    h.bytes += s->holes[i].bytes;
    drop_hole(s, i);
  }
  if (i > 0 && s->holes[i - 1].chunk == h.chunk &&
      s->holes[i - 1].offset + s->holes[i - 1].bytes == h.offset) {
    s->holes[i - 1].bytes += h.bytes;
    return;
  }
  memmove(&s->holes[i + 1], &s->holes[i], (s->n_holes - i) * sizeof(hole));
  s->holes[i] = h;
  s->n_holes++;
}

static bool take_best_hole(sweep *s, arena_block *b, size_t bytes) {
  size_t best = s->n_holes;
  for (size_t i = 0; i < s->n_holes; i++)
    if (s->holes[i].bytes >= bytes &&
        (best == s->n_holes || s->holes[i].bytes < s->holes[best].bytes))
      best = i;
  if (best == s->n_holes) return false;
  hole *h = &s->holes[best];
  b->chunk = h->chunk;
  b->offset = h->offset;
  h->offset += bytes;
  h->bytes -= bytes;
  if (!h->bytes) drop_hole(s, best);
  return true;
}

/* The hole at the end of the last chunk, if there is one, is used up before the chunk grows. */
static clave_status grow(sweep *s, arena_block *b, size_t bytes) {
  arena_layout *l = s->layout;
  if (bytes > s->max_chunk)
    return status_new(STATUS_NO_MEMORY,
                      "a tensor of %zu bytes exceeds the device's largest allocation, %zu bytes",
                      b->bytes, s->max_chunk);
  if (l->n_chunks) {
    uint32_t c = l->n_chunks - 1;
    size_t end = l->chunk_bytes[c], tail = 0;
    const hole *h = s->n_holes ? &s->holes[s->n_holes - 1] : NULL;
    if (h && h->chunk == c && h->offset + h->bytes == end) tail = h->bytes;
    if (end - tail + bytes <= s->max_chunk) {
      if (tail) s->n_holes--;
      b->chunk = c;
      b->offset = end - tail;
      l->chunk_bytes[c] = end - tail + bytes;
      return NULL;
    }
  }
  size_t *more = realloc(l->chunk_bytes, (l->n_chunks + 1) * sizeof *more);
  if (!more) return status_no_memory();
  l->chunk_bytes = more;
  more[l->n_chunks] = bytes;
  b->chunk = l->n_chunks++;
  b->offset = 0;
  return NULL;
}

static clave_status place_one(sweep *s, arena_block *b) {
  while (s->n_dying && s->dying[0]->last < b->first) {
    arena_block *dead = pop_dying(s);
    release(s, (hole){dead->chunk, dead->offset,
                      (dead->bytes + s->alignment - 1) / s->alignment * s->alignment});
  }
  if (b->bytes > SIZE_MAX - s->alignment) return status_no_memory();
  size_t bytes = (b->bytes + s->alignment - 1) / s->alignment * s->alignment;
  if (!bytes) bytes = s->alignment;
  if (!take_best_hole(s, b, bytes)) TRY(grow(s, b, bytes));
  if (b->bytes) push_dying(s, b);
  return NULL;
}

clave_status arena_place(arena_block **blocks, size_t n, size_t alignment, size_t max_chunk,
                         arena_layout *out) {
  *out = (arena_layout){0};
  if (!n) return NULL;
  sweep s = {.alignment = alignment, .max_chunk = max_chunk / alignment * alignment, .layout = out};
  s.holes = malloc((n + 1) * sizeof *s.holes);
  s.dying = malloc(n * sizeof *s.dying);
  clave_status st = s.holes && s.dying ? NULL : status_no_memory();
  if (!st) qsort(blocks, n, sizeof *blocks, by_birth);
  for (size_t i = 0; i < n && !st; i++) st = place_one(&s, blocks[i]);
  free(s.holes);
  free(s.dying);
  if (st) arena_layout_free(out);
  return st;
}

void arena_layout_free(arena_layout *l) {
  free(l->chunk_bytes);
  *l = (arena_layout){0};
}
