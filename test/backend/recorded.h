#ifndef TEST_BACKEND_RECORDED_H
#define TEST_BACKEND_RECORDED_H
/* One node on a backend, without a schedule: recorded, run some times, and forgotten. */
#include <stdlib.h>

#include "backend/backend.h"

typedef struct recorded {
  backend *b;
  stream *s;
  recording *r;
  void *state, *cache;
  buffer *scratch;
} recorded;

static inline clave_status make_recorded(backend *b, stream *s, node n, recorded *out) {
  *out = (recorded){.b = b, .s = s};
  n.cache = &out->cache;
  TRY(b->vt->record(b, &n, false, &out->r));
  if (out->r->scratch_bytes) TRY(b->vt->buffer_create(b, out->r->scratch_bytes, &out->scratch));
  if (!b->vt->building) return NULL;
  TRY(b->vt->building->request(s, out->r));
  return b->vt->building->build_all(s, NULL, NULL);
}

static inline clave_status run_recorded(recorded *r, const bound_tensor *tensors, uint32_t number) {
  const run_operands o = {.tensors = tensors, .scratch = r->scratch};
  return r->b->vt->run(r->s, r->r, &r->state, &o, number);
}

static inline void free_recorded(recorded *r) {
  if (r->state) r->b->vt->state_destroy(r->s, r->state);
  r->b->vt->recording_destroy(r->b, r->r);
  r->b->vt->buffer_destroy(r->b, r->scratch);
  if (r->b->vt->building) r->b->vt->building->cache_destroy(r->b, r->cache);
}

/* Once. */
static inline clave_status run_once(backend *b, stream *s, const node *n, uint32_t number) {
  recorded r;
  clave_status st = make_recorded(b, s, *n, &r);
  if (!st) st = run_recorded(&r, n->tensors, number);
  free_recorded(&r);
  return st;
}

#endif
