/* A program's constants on one device: wrapped in place where the device shares host memory, else
 * uploaded once. */
#include <stdlib.h>
#include <string.h>

#include "base/threads.h"
#include "interp/graph/graph.h"
#include "interp/interp.h"

typedef struct stored_form {
  struct stored_form *next;
  constant_form f; /* without fill */
  buffer *buf;     /* owned */
} stored_form;

struct constant_store {
  const program *prog; /* borrowed */
  backend *owner;      /* borrowed */
  mutex *lock;
  buffer **buffers;   /* (n_constants) owned; NULL: not used yet */
  stored_form *forms; /* owned */
  uint64_t bytes, form_bytes;
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
  for (stored_form *f = c->forms, *next; f; f = next) {
    next = f->next;
    c->owner->vt->buffer_destroy(c->owner, f->buf);
    free(f);
  }
  mutex_destroy(c->lock);
  free(c);
}

const backend *constant_store_backend(const constant_store *c) { return c->owner; }

uint64_t constant_store_bytes(const constant_store *c) {
  mutex_lock(c->lock);
  uint64_t bytes = c->bytes + c->form_bytes;
  mutex_unlock(c->lock);
  return bytes;
}

uint64_t constant_store_form_bytes(const constant_store *c) {
  mutex_lock(c->lock);
  uint64_t bytes = c->form_bytes;
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

/* ---------------------------------------------------------------- forms */

static bool is_same_view(const tensor *a, const tensor *b) {
  if (a->type != b->type || a->rank != b->rank || a->offset != b->offset) return false;
  for (int d = 0; d < a->rank; d++)
    if (a->dims[d] != b->dims[d] || a->strides[d] != b->strides[d]) return false;
  return true;
}

static stored_form *find_form(const constant_store *c, const constant_form *f) {
  for (stored_form *s = c->forms; s; s = s->next)
    if (s->f.constant == f->constant && s->f.kind == f->kind &&
        memcmp(s->f.size, f->size, sizeof f->size) == 0 && s->f.bytes == f->bytes &&
        is_same_view(&s->f.view, &f->view))
      return s;
  return NULL;
}

static clave_status make_form(constant_store *c, const constant_form *f,
                              clave_status (*fill)(void *ctx, buffer *to), void *ctx,
                              stored_form **out) {
  stored_form *made = calloc(1, sizeof *made);
  if (!made) return status_no_memory();
  made->f = *f;
  made->f.fill = NULL;
  clave_status st = c->owner->vt->buffer_create(c->owner, f->bytes, &made->buf);
  if (!st) st = fill(ctx, made->buf);
  if (st) {
    c->owner->vt->buffer_destroy(c->owner, made->buf);
    free(made);
    return st;
  }
  made->next = c->forms;
  *out = c->forms = made;
  c->form_bytes += f->bytes;
  return NULL;
}

clave_status constant_store_form(constant_store *c, const constant_form *f,
                                 clave_status (*fill)(void *ctx, buffer *to), void *ctx,
                                 buffer **out) {
  clave_status st = NULL;
  mutex_lock(c->lock);
  stored_form *found = find_form(c, f);
  if (!found) st = make_form(c, f, fill, ctx, &found);
  if (!st) *out = found->buf;
  mutex_unlock(c->lock);
  return status_while(st, "a packed form of constant '%s'",
                      c->prog->ir.constants.items[f->constant].name);
}

bool constant_store_has_form(const constant_store *c, const constant_form *f) {
  mutex_lock(c->lock);
  bool has = find_form(c, f) != NULL;
  mutex_unlock(c->lock);
  return has;
}
