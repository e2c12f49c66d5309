#ifndef INTERP_ARENA_H
#define INTERP_ARENA_H
/* The offset planner: assigns offsets to blocks with known lifetimes. It uses best fit over a free
 * list, in order of first use, and accesses no device. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

typedef struct arena_block {
  size_t bytes;
  uint32_t first, last; /* commands, inclusive: in use from before `first` until after `last` */
  uint32_t chunk;       /* result */
  size_t offset;        /* result: bytes from the chunk's start */
} arena_block;

typedef struct arena_layout {
  size_t *chunk_bytes; /* owned */
  uint32_t n_chunks;
} arena_layout;

/* Places blocks[0..n) in chunks of at most max_chunk bytes, at offsets aligned to `alignment`. A
 * block larger than max_chunk is an error. Takes O(n log n) time if the free list stays short. The
 * caller frees *out with arena_layout_free. */
clave_status arena_place(arena_block **blocks, size_t n, size_t alignment, size_t max_chunk,
                         arena_layout *out) STATUS_CHECK;
void arena_layout_free(arena_layout *layout);

#endif
