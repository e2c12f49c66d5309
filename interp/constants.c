/* A program's constants on one device: wrapped in place where the device shares host memory, else
 * uploaded once. */
#include <stdlib.h>

#include "base/threads.h"
#include "interp/graph/graph.h"
#include "interp/interp.h"

struct constant_store {
  const program *prog; /* borrowed */
  backend *owner;      /* borrowed */
  mutex *lock;
  buffer **buffers; /* (n_constants) owned; NULL: not used yet */
  uint64_t bytes;
};

clave_status constant_store_create(const program *p, backend *b, constant_store **out) {
  *out = NULL;
  constant_store *c = calloc(1, sizeof *c);
  if (!c) return status_no_memory();
  c->prog = p;
  c->owner = b;
  c->buffers = calloc(p->ir.constants.count + 1, sizeof *c->buffers);
  clave_status st = c->buffers ? mutex_create(&c->lock) : status_no_memory();
  if (st) {
    constant_store_destroy(c);
    return st;
  }
  *out = c;
  return NULL;
}

void constant_store_destroy(constant_store *c) {
  if (!c) return;
  for (uint32_t i = 0; c->buffers && i < c->prog->ir.constants.count; i++)
    c->owner->vt->buffer_destroy(c->owner, c->buffers[i]);
  free(c->buffers);
  mutex_destroy(c->lock);
  free(c);
}

const backend *constant_store_backend(const constant_store *c) { return c->owner; }

uint64_t constant_store_bytes(const constant_store *c) {
  mutex_lock(c->lock);
  uint64_t bytes = c->bytes;
  mutex_unlock(c->lock);
  return bytes;
}

bool constant_store_has(const constant_store *c, uint32_t tid) {
  mutex_lock(c->lock);
  bool has = c->buffers[tid] != NULL;
  mutex_unlock(c->lock);
  return has;
}

const void *constant_store_host(const constant_store *c, const buffer *b) {
  const void *found = NULL;
  mutex_lock(c->lock);
  for (uint32_t i = 0; b && i < c->prog->ir.constants.count && !found; i++)
    if (c->buffers[i] == b) found = c->prog->constants[i];
  mutex_unlock(c->lock);
  return found;
}

/* The device has its own copy: the mapped pages need not stay in memory. */
static void release_pages(const program *p, const void *data, size_t bytes) {
  for (size_t i = 0; i < sizeof p->maps / sizeof p->maps[0]; i++) {
    const file_map *m = &p->maps[i];
    uintptr_t start = (uintptr_t)m->data, at = (uintptr_t)data;
    if (m->data && at >= start && at < start + m->size) file_map_release(m, at - start, bytes);
  }
}

clave_status constant_store_get(constant_store *c, uint32_t tid, buffer **out) {
  clave_status st = NULL;
  mutex_lock(c->lock);
  if (!c->buffers[tid]) {
    size_t bytes = 0;
    st = known_bytes(&c->prog->types[tid], &bytes);
    if (!st)
      st = c->owner->vt->buffer_wrap(c->owner, c->prog->constants[tid], bytes, false,
                                     &c->buffers[tid]);
    if (!st) c->bytes += bytes;
    if (!st && !c->owner->info.shares_host_memory)
      release_pages(c->prog, c->prog->constants[tid], bytes);
    st = status_while(st, "constant '%s'", c->prog->ir.constants.items[tid].name);
  }
  *out = c->buffers[tid];
  mutex_unlock(c->lock);
  return st;
}
