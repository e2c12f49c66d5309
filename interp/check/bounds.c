/* A custom kernel's launch into memory of its own: each result lies between guard zones, which show
 * whether the kernel keeps to it. What it wrote is then taken over. */
#include "interp/check/bounds.h"

#include <stdlib.h>
#include <string.h>

enum { GUARD_BYTES = 4096, GUARD_PATTERN = 0xa5 };

typedef struct guarded {
  uint32_t tid;
  size_t bytes;
  buffer *buf; /* owned: a guard zone, the result, a guard zone */
} guarded;

typedef struct bounds_check {
  const checking *c;
  backend *b;
  stream *queue;
  guarded *results;      /* owned (n) */
  bound_tensor *tensors; /* owned (n_slots + 2): as given, the results in guarded memory */
  uint32_t n;
} bounds_check;

/* ---------------------------------------------------------------- before the launch */

static clave_status fill_guards(const bounds_check *k, const guarded *g) {
  size_t total = g->bytes + 2 * GUARD_BYTES;
  void *pattern = malloc(total);
  if (!pattern) return status_no_memory();
  memset(pattern, GUARD_PATTERN, total);
  clave_status st = k->b->vt->write(k->queue, g->buf, 0, pattern, total);
  free(pattern);
  return st;
}

static clave_status guard_result(bounds_check *k, uint32_t tid) {
  bound_tensor *t = &k->tensors[tid];
  guarded *g = &k->results[k->n];
  if (tensor_numel(&t->t) == 0) return NULL;
  *g = (guarded){.tid = tid};
  TRY(known_bytes(&t->t, &g->bytes));
  TRY(k->b->vt->buffer_create(k->b, g->bytes + 2 * GUARD_BYTES, &g->buf));
  k->n++;
  TRY(fill_guards(k, g));
  t->buf = g->buf;
  t->buffer_offset = GUARD_BYTES - (size_t)t->t.offset * dtype_size(t->t.type);
  return NULL;
}

static clave_status guard_results(bounds_check *k, const run_operands *o) {
  const ir_custom *op = k->c->nd->instruction->op;
  size_t slots = (size_t)slot_count(k->c->s->prog) + 2;
  k->results = calloc((size_t)op->results.count + 1, sizeof *k->results);
  k->tensors = malloc(slots * sizeof *k->tensors);
  if (!k->results || !k->tensors) return status_no_memory();
  memcpy(k->tensors, o->tensors, slots * sizeof *k->tensors);
  for (uint32_t i = 0; i < op->results.count; i++) TRY(guard_result(k, op->results.items[i]));
  return NULL;
}

/* ---------------------------------------------------------------- behind it */

static bool is_touched(const unsigned char *zone) {
  for (size_t i = 0; i < GUARD_BYTES; i++)
    if (zone[i] != GUARD_PATTERN) return true;
  return false;
}

static clave_status check_zone(const bounds_check *k, const guarded *g, size_t offset,
                               const char *where) {
  unsigned char zone[GUARD_BYTES];
  const ir_custom *op = k->c->nd->instruction->op;
  const tensor *t = &k->tensors[g->tid].t;
  char shape[128];
  TRY(k->b->vt->read(k->queue, g->buf, offset, zone, sizeof zone));
  if (!is_touched(zone)) return NULL;
  return status_new(STATUS_DEVICE, "the kernel of %s writes %s its result, which is %s %s",
                    op->target, where, dtype_name(t->type),
                    tensor_shape_text(t, shape, sizeof shape));
}

static clave_status take_result(const bounds_check *k, const guarded *g) {
  const bound_tensor *to = &k->c->nd->tensors[g->tid];
  TRY(check_zone(k, g, 0, "in front of"));
  TRY(check_zone(k, g, GUARD_BYTES + g->bytes, "behind"));
  return k->b->vt->copy(k->queue, to->buf,
                        to->buffer_offset + (size_t)to->t.offset * dtype_size(to->t.type), g->buf,
                        GUARD_BYTES, g->bytes);
}

clave_status run_guarded(const checking *c, const recording *r, void **state,
                         const run_operands *o) {
  bounds_check k = {
      .c = c, .b = c->s->devices.backends[c->backend], .queue = c->s->streams[c->backend]};
  run_operands own = *o;
  clave_status st = guard_results(&k, o);
  own.tensors = k.tensors;
  if (!st) st = k.b->vt->run(k.queue, r, state, &own, c->number);
  for (uint32_t i = 0; i < k.n && !st; i++) st = take_result(&k, &k.results[i]);
  device_fault fault;
  clave_status end = k.n ? k.b->vt->finish(k.queue, &fault) : NULL;
  for (uint32_t i = 0; i < k.n; i++) k.b->vt->buffer_destroy(k.b, k.results[i].buf);
  free(k.results);
  free(k.tensors);
  if (!st) return end;
  status_free(end);
  return st;
}
