/* The memory pool and growing arrays. */
#include "base/memory.h"

#include <stdalign.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"

/* The alignment of calloc: 16 on 64-bit processors, 8 on 32-bit ones. */
enum { POOL_ALIGNMENT = alignof(max_align_t), POOL_CHUNK = 32 * 1024 };

typedef struct pool_chunk {
  struct pool_chunk *next;
  size_t used, capacity; /* capacity of bytes */
  alignas(POOL_ALIGNMENT) unsigned char bytes[];
} pool_chunk;

struct mem_pool {
  pool_chunk *chunks; /* owned list; only the first has space left */
  size_t bytes;       /* bytes allocated from the pool */
};

clave_status mem_pool_create(mem_pool **out) {
  *out = calloc(1, sizeof **out);
  return *out ? NULL : status_no_memory();
}

void mem_pool_destroy(mem_pool *pool) {
  if (!pool) return;
  for (pool_chunk *c = pool->chunks, *next; c; c = next) {
    next = c->next;
    free(c);
  }
  free(pool);
}

/* Adds a chunk for at least `bytes`. A chunk for a single large allocation is inserted after the
 * first, whose free space remains usable. */
static pool_chunk *add_chunk(mem_pool *pool, size_t bytes) {
  size_t capacity = bytes > POOL_CHUNK / 4 ? bytes : POOL_CHUNK, total;
  if (!add_size(capacity, sizeof(pool_chunk), &total)) return NULL;
  pool_chunk *chunk = calloc(1, total);
  if (!chunk) return NULL;
  chunk->capacity = capacity;
  if (capacity == bytes && pool->chunks) {
    chunk->next = pool->chunks->next;
    pool->chunks->next = chunk;
  } else {
    chunk->next = pool->chunks;
    pool->chunks = chunk;
  }
  return chunk;
}

void *mem_pool_alloc(mem_pool *pool, size_t count, size_t size) {
  size_t bytes;
  if (!mul_size(count, size, &bytes) || !add_size(bytes, POOL_ALIGNMENT, &bytes)) return NULL;
  bytes = (bytes - 1) & ~(size_t)(POOL_ALIGNMENT - 1);
  if (bytes == 0) bytes = POOL_ALIGNMENT;
  pool_chunk *chunk = pool->chunks;
  if (!chunk || chunk->capacity - chunk->used < bytes) chunk = add_chunk(pool, bytes);
  if (!chunk) return NULL;
  void *result = chunk->bytes + chunk->used;
  chunk->used += bytes;
  pool->bytes += bytes;
  return result;
}

char *mem_pool_strdup(mem_pool *pool, const char *text, size_t n) {
  size_t bytes;
  if (!add_size(n, 1, &bytes)) return NULL;
  char *copy = mem_pool_alloc(pool, bytes, 1);
  if (copy && n > 0) memcpy(copy, text, n);
  return copy;
}

size_t mem_pool_bytes(const mem_pool *pool) { return pool->bytes; }

bool mem_pool_has(const mem_pool *pool, const void *at) {
  const uintptr_t byte = (uintptr_t)at;
  for (const pool_chunk *c = pool ? pool->chunks : NULL; c; c = c->next)
    if (byte >= (uintptr_t)c->bytes && byte - (uintptr_t)c->bytes < c->used) return true;
  return false;
}

bool array_reserve(void *array, size_t *capacity, size_t need, size_t size) {
  enum { FEWEST = 4 };
  if (need <= *capacity) return true;
  size_t most = *capacity > SIZE_MAX / 2 ? need : *capacity * 2, bytes;
  if (most < need) most = need;
  if (most < FEWEST) most = FEWEST;
  if (!mul_size(most, size, &bytes)) return false;
  void *items;
  memcpy(&items, array, sizeof items); /* the pointer may have any type */
  items = realloc(items, bytes);
  if (!items) return false;
  memcpy(array, &items, sizeof items);
  *capacity = most;
  return true;
}
