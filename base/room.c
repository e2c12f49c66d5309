/* Memory of small things. */
#include "base/room.h"

#if MEMORY_STATIC
#include <stdalign.h>
#include <string.h>

enum { UNIT = alignof(max_align_t) };
static alignas(UNIT) unsigned char room[MEMORY_STATIC];
static size_t used;

/* A block lies behind its size. */
static size_t size_of(const void *p) {
  size_t bytes;
  memcpy(&bytes, (const unsigned char *)p - UNIT, sizeof bytes);
  return bytes;
}

static size_t rounded(size_t bytes) { return (bytes + UNIT - 1) / UNIT * UNIT; }

static size_t begin_of(const void *p) { return (size_t)((const unsigned char *)p - room); }

static int is_last(const void *p) { return begin_of(p) + rounded(size_of(p)) == used; }

/* Makes the block that begins there the last one. */
static void *place(size_t begin, size_t bytes) {
  if (begin > sizeof room || bytes > sizeof room - begin) return NULL;
  memcpy(room + begin - UNIT, &bytes, sizeof bytes);
  used = begin + rounded(bytes);
  return room + begin;
}

void *room_take(size_t bytes) {
  void *p = place(used + UNIT, bytes);
  return p ? memset(p, 0, bytes) : NULL;
}

void *room_resize(void *p, size_t bytes) {
  if (p && is_last(p)) return place(begin_of(p), bytes);
  void *moved = room_take(bytes);
  if (moved && p) memcpy(moved, p, size_of(p) < bytes ? size_of(p) : bytes);
  return moved;
}

void room_give(void *p) {
  if (p && is_last(p)) used = begin_of(p) - UNIT;
}
#else
#include <stdlib.h>

void *room_take(size_t bytes) { return calloc(1, bytes ? bytes : 1); }
void *room_resize(void *p, size_t bytes) { return realloc(p, bytes); }
void room_give(void *p) { free(p); }
#endif
