/* Memory for small objects. */
#include "base/small_alloc.h"

#if MEMORY_STATIC
#include <stdalign.h>
#include <string.h>

enum { UNIT = alignof(max_align_t) };
static alignas(UNIT) unsigned char buffer[MEMORY_STATIC];
static size_t used;

/* A block's size is stored before it. */
static size_t small_alloc_size_of(const void *memory) {
  size_t bytes;
  memcpy(&bytes, (const unsigned char *)memory - UNIT, sizeof bytes);
  return bytes;
}

static size_t small_alloc_rounded(size_t bytes) { return (bytes + UNIT - 1) / UNIT * UNIT; }

static size_t begin_of(const void *memory) {
  return (size_t)((const unsigned char *)memory - buffer);
}

static int small_alloc_is_last(const void *memory) {
  return begin_of(memory) + small_alloc_rounded(small_alloc_size_of(memory)) == used;
}

/* Makes the block at `begin` the last one. Returns NULL if it does not fit. */
static void *small_alloc_place(size_t begin, size_t bytes) {
  if (begin > sizeof buffer || bytes > sizeof buffer - begin) return NULL;
  memcpy(buffer + begin - UNIT, &bytes, sizeof bytes);
  used = begin + small_alloc_rounded(bytes);
  return buffer + begin;
}

void *small_alloc(size_t bytes) {
  void *memory = small_alloc_place(used + UNIT, bytes);
  return memory ? memset(memory, 0, bytes) : NULL;
}

void *small_realloc(void *memory, size_t bytes) {
  if (memory && small_alloc_is_last(memory)) return small_alloc_place(begin_of(memory), bytes);
  void *moved = small_alloc(bytes);
  if (moved && memory)
    memcpy(moved, memory,
           small_alloc_size_of(memory) < bytes ? small_alloc_size_of(memory) : bytes);
  return moved;
}

void small_free(void *memory) {
  if (memory && small_alloc_is_last(memory)) used = begin_of(memory) - UNIT;
}
#else
#include <stdlib.h>

void *small_alloc(size_t bytes) { return calloc(1, bytes ? bytes : 1); }
void *small_realloc(void *memory, size_t bytes) { return realloc(memory, bytes); }
void small_free(void *memory) { free(memory); }
#endif
