/* A program's constants on one device: wrapped in place where the device shares host memory, else
 * uploaded once. So are encoded ones that are decoded for ops that read no codes: each is known by
 * the slot that a Dequantize gives. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/threads.h"
#include "interp/graph/graph.h"
#include "interp/interp.h"

typedef struct stored_form {
  struct stored_form *next;
  constant_form f; /* without fill */
  buffer *buf;     /* owned */
  bool is_filled;  /* else it is the program's */
} stored_form;

struct constant_store {
  const program *prog; /* borrowed */
  backend *owner;      /* borrowed */
  mutex *lock;
  buffer **buffers;   /* (n_slots) owned; NULL: not used yet, or no constant */
  void **decoded;     /* (n_slots) owned; what such a buffer lies over */
  stored_form *forms; /* owned */
  uint64_t bytes, form_bytes, mapped_bytes;
  bool *is_whole; /* (n_forms of the program) owned; of those for this device; NULL: not checked */
};

clave_status constant_store_create(const program *p, backend *b, constant_store **out) {
  *out = NULL;
  constant_store *c = calloc(1, sizeof *c);
  if (!c) return status_no_memory();
  c->prog = p;
  c->owner = b;
  c->buffers = calloc((size_t)slot_count(p) + 1, sizeof *c->buffers);
  c->decoded = calloc((size_t)slot_count(p) + 1, sizeof *c->decoded);
  clave_status st = c->buffers && c->decoded ? mutex_create(&c->lock) : status_no_memory();
  if (st) {
    constant_store_destroy(c);
    return st;
  }
  *out = c;
  return NULL;
}

void constant_store_destroy(constant_store *c) {
  if (!c) return;
  for (uint32_t i = 0; c->buffers && i < slot_count(c->prog); i++)
    c->owner->vt->buffer_destroy(c->owner, c->buffers[i]);
  for (uint32_t i = 0; c->decoded && i < slot_count(c->prog); i++) free(c->decoded[i]);
  free(c->buffers);
  free(c->decoded);
  for (stored_form *f = c->forms, *next; f; f = next) {
    next = f->next;
    c->owner->vt->buffer_destroy(c->owner, f->buf);
    free(f);
  }
  free(c->is_whole);
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

uint64_t constant_store_mapped_bytes(const constant_store *c) {
  mutex_lock(c->lock);
  uint64_t bytes = c->mapped_bytes;
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

/* The device has its own copy, or a form of it: the mapped pages need not stay in memory. */
static void release_pages(const program *p, const void *data, size_t bytes) {
  const uintptr_t at = (uintptr_t)data;
  for (; p; p = p->base) {
    for (size_t i = 0; i < sizeof p->maps / sizeof p->maps[0]; i++) {
      const file_map *m = &p->maps[i];
      uintptr_t start = (uintptr_t)m->data;
      if (m->data && at >= start && at < start + m->size) file_map_release(m, at - start, bytes);
    }
  }
}

/* The Dequantize that gives the slot. */
static const ir_dequantize *decoder_of(const program *p, uint32_t tid) {
  for (uint32_t c = 0; c < p->ir.chains.count; c++) {
    const ir_instructions *all = &p->ir.chains.items[c].instructions;
    for (uint32_t i = 0; i < all->count; i++) {
      const ir_dequantize *o = all->items[i].op;
      if (all->items[i].op_type == IR_OP_DEQUANTIZE && o->out == tid) return o;
    }
  }
  return NULL;
}

/* The constant that a slot is, or is decoded from. */
static uint32_t source_of(const program *p, uint32_t tid) {
  return is_slot(p, tid, SLOT_CONSTANT) ? tid : decoder_of(p, tid)->x;
}

/* type: F32, F16 or BF16. */
static void store_floats(const float *x, int n, dtype type, void *to) {
  uint16_t *narrow = to;
  if (type == DTYPE_F32) memcpy(to, x, (size_t)n * sizeof *x);
  for (int i = 0; i < n && type == DTYPE_F16; i++) narrow[i] = f32_to_f16(x[i]);
  for (int i = 0; i < n && type == DTYPE_BF16; i++) narrow[i] = f32_to_bf16(x[i]);
}

static void decode_row(const encoding *e, code_bytes row, int64_t elements, dtype type, char *to) {
  float x[DECODED_AT_ONCE];
  for (int64_t first = 0; first < elements; first += DECODED_AT_ONCE) {
    const int64_t left = elements - first;
    encoding_decode(e, row, elements, first / DECODED_AT_ONCE, x);
    store_floats(x, (int)(left < DECODED_AT_ONCE ? left : DECODED_AT_ONCE), type,
                 to + (size_t)first * dtype_size(type));
  }
}

static clave_status decode(constant_store *c, uint32_t tid, size_t *bytes) {
  const uint32_t x = decoder_of(c->prog, tid)->x;
  tensor t = c->prog->types[x];
  const int64_t rows = tensor_rows(&t), elements = tensor_row(&t);
  const encoding e = t.encoding;
  const size_t row_bytes = encoding_row_bytes(&e, elements);
  t.encoding = (encoding){0};
  t.type = c->prog->types[tid].type;
  TRY(known_bytes(&t, bytes));
  char *made = memory_alloc(*bytes + 1);
  if (!made) return status_no_memory();
  for (int64_t r = 0; r < rows; r++)
    decode_row(&e, (code_bytes)c->prog->constants[x] + (size_t)r * row_bytes, elements, t.type,
               made + (size_t)(r * elements) * dtype_size(t.type));
  c->decoded[tid] = made;
  return NULL;
}

static clave_status wrap(constant_store *c, uint32_t tid, size_t *bytes) {
  const bool is_decoded = !is_slot(c->prog, tid, SLOT_CONSTANT);
  TRY(is_decoded ? decode(c, tid, bytes) : known_bytes(&c->prog->types[tid], bytes));
  const void *data = is_decoded ? c->decoded[tid] : c->prog->constants[tid];
  clave_status st = c->owner->vt->buffer_wrap(c->owner, data, *bytes, false, &c->buffers[tid]);
  if (st || c->owner->info.shares_host_memory) return st;
  if (!is_decoded) release_pages(c->prog, data, *bytes);
  free(c->decoded[tid]);
  c->decoded[tid] = NULL;
  return NULL;
}

static clave_status name_constant(clave_status st, const char *what, const constant_store *c,
                                  uint32_t tid) {
  return status_while(st, "%s'%s'", what,
                      c->prog->ir.constants.items[source_of(c->prog, tid)].name);
}

clave_status constant_store_get(constant_store *c, uint32_t tid, buffer **out) {
  clave_status st = NULL;
  mutex_lock(c->lock);
  if (!c->buffers[tid]) {
    size_t bytes = 0;
    st = wrap(c, tid, &bytes);
    if (!st) c->bytes += bytes;
    if (st) st = name_constant(st, "constant ", c, tid);
  }
  *out = c->buffers[tid];
  mutex_unlock(c->lock);
  return st;
}

/* ---------------------------------------------------------------- forms */

static stored_form *find_form(const constant_store *c, const constant_form *f) {
  for (stored_form *s = c->forms; s; s = s->next)
    if (constant_forms_equal(&s->f, f)) return s;
  return NULL;
}

/* As files have it. */
static program_form form_for(const backend *b, const constant_form *f) {
  program_form p = {.constant = f->constant, .kind = f->kind, .view = f->view, .bytes = f->bytes};
  memcpy(p.size, f->size, sizeof p.size);
  if (b->info.forms) (void)snprintf(p.layout, sizeof p.layout, "%s", b->info.forms);
  return p;
}

static void check_some(void *ctx, int64_t begin, int64_t end) {
  const constant_store *c = ctx;
  for (int64_t i = begin; i < end; i++) {
    const program_form *f = &c->prog->forms[i];
    c->is_whole[i] = strcmp(f->layout, c->owner->info.forms) == 0 && program_form_is_whole(f);
  }
}

/* Those for this device, all at once: reading them is most of what loading takes. */
static clave_status check_forms(constant_store *c) {
  thread_pool *pool;
  if (c->is_whole) return NULL;
  TRY(thread_pool_create(0, &pool));
  c->is_whole = calloc(c->prog->n_forms, sizeof *c->is_whole);
  if (!c->is_whole) {
    thread_pool_destroy(pool);
    return status_no_memory();
  }
  thread_pool_for(pool, (int64_t)c->prog->n_forms, 1, check_some, c);
  thread_pool_destroy(pool);
  return NULL;
}

/* *out: the program's own; NULL. */
static clave_status find_packed(constant_store *c, const constant_form *f, const form_source *from,
                                const program_form **out) {
  *out = NULL;
  if (!c->owner->info.forms || !is_slot(c->prog, f->constant, SLOT_CONSTANT)) return NULL;
  const program_form wanted = form_for(c->owner, f), *p = program_find_form(c->prog, &wanted);
  if (p && from->checks) TRY(check_forms(c));
  if (!p || !from->checks || c->is_whole[p - c->prog->forms]) {
    *out = p;
  } else if (from->damaged) {
    from->damaged(from->ctx, c->prog->ir.constants.items[f->constant].name);
  }
  return NULL;
}

static clave_status fill_form(constant_store *c, const form_source *from, stored_form *made) {
  made->is_filled = true;
  TRY(c->owner->vt->buffer_create(c->owner, made->f.bytes, &made->buf));
  return from->fill(from->ctx, made->buf);
}

static clave_status wrap_form(constant_store *c, const program_form *p, stored_form *made) {
  TRY(c->owner->vt->buffer_wrap(c->owner, p->data, p->bytes, false, &made->buf));
  if (!c->owner->info.shares_host_memory)
    release_pages(c->prog, p->data, p->bytes);
  else if ((uintptr_t)p->data % c->owner->info.alignment == 0)
    c->mapped_bytes += p->bytes;
  return NULL;
}

static clave_status make_form(constant_store *c, const constant_form *f, const form_source *from,
                              stored_form **out) {
  const program_form *packed;
  TRY(find_packed(c, f, from, &packed));
  stored_form *made = calloc(1, sizeof *made);
  if (!made) return status_no_memory();
  made->f = *f;
  made->f.fill = NULL;
  clave_status st = packed ? wrap_form(c, packed, made) : fill_form(c, from, made);
  if (st) {
    c->owner->vt->buffer_destroy(c->owner, made->buf);
    free(made);
    return st;
  }
  made->next = c->forms;
  *out = c->forms = made;
  c->form_bytes += f->bytes;
  const buffer *plain = c->buffers[f->constant];
  if (plain && is_slot(c->prog, f->constant, SLOT_CONSTANT))
    release_pages(c->prog, c->prog->constants[f->constant], plain->bytes);
  return NULL;
}

clave_status constant_store_form(constant_store *c, const constant_form *f, const form_source *from,
                                 buffer **out, bool *is_filled) {
  clave_status st = NULL;
  mutex_lock(c->lock);
  stored_form *found = find_form(c, f);
  if (!found) st = make_form(c, f, from, &found);
  if (!st) *out = found->buf;
  if (!st) *is_filled = found->is_filled;
  mutex_unlock(c->lock);
  return st ? name_constant(st, "a packed form of constant ", c, f->constant) : NULL;
}

bool constant_store_has_form(const constant_store *c, const constant_form *f) {
  mutex_lock(c->lock);
  bool has = find_form(c, f) != NULL;
  mutex_unlock(c->lock);
  return has;
}

buffer *constant_store_find_form(const constant_store *c, const constant_form *f) {
  buffer *found = NULL;
  mutex_lock(c->lock);
  for (const stored_form *s = c->forms; s && !found; s = s->next)
    if (constant_form_serves(&s->f, f)) found = s->buf;
  mutex_unlock(c->lock);
  return found;
}

static clave_status keep_form(constant_store *c, stream *s, const stored_form *f, program *to) {
  program_form kept = form_for(c->owner, &f->f);
  kept.data = kept.own = memory_alloc(f->f.bytes);
  if (!kept.own) return status_no_memory();
  clave_status st = c->owner->vt->read(s, f->buf, 0, kept.own, f->f.bytes);
  if (!st) return program_add_form(to, &kept);
  free(kept.own);
  return st;
}

/* One after the other, so that no more than one is there twice. */
static clave_status keep_all(constant_store *c, stream *s, program *to) {
  for (stored_form *f; (f = c->forms);) {
    if (f->is_filled && is_slot(c->prog, f->f.constant, SLOT_CONSTANT)) TRY(keep_form(c, s, f, to));
    c->forms = f->next;
    c->owner->vt->buffer_destroy(c->owner, f->buf);
    free(f);
  }
  return NULL;
}

/* The last one is first. */
static void reverse_forms(constant_store *c) {
  stored_form *made = NULL;
  for (stored_form *f = c->forms, *next; f; f = next) {
    next = f->next;
    f->next = made;
    made = f;
  }
  c->forms = made;
}

clave_status constant_store_keep_forms(constant_store *c, program *to) {
  stream *s;
  if (!c->forms || !c->owner->info.forms) return NULL;
  TRY(c->owner->vt->stream_create(c->owner, &s));
  reverse_forms(c); /* files have them as runs read them */
  clave_status st = keep_all(c, s, to);
  c->owner->vt->stream_destroy(c->owner, s);
  return st;
}
