#ifndef TEST_BACKEND_RECORDED_H
#define TEST_BACKEND_RECORDED_H
/* Records one node on a backend without a schedule, runs it some times, and frees the recording. */
#include <stdlib.h>

#include "backend/backend.h"

typedef struct recorded {
  backend *b;
  stream *s;
  recording *r;
  void *state, *cache;
  buffer *scratch;
} recorded;

static inline clave_status make_recorded(backend *backend, stream *stream, node node,
                                         recorded *out) {
  *out = (recorded){.b = backend, .s = stream};
  node.cache = &out->cache;
  TRY(backend->vt->record(backend, &node, false, &out->r));
  if (out->r->scratch_bytes)
    TRY(backend->vt->buffer_create(backend, out->r->scratch_bytes, &out->scratch));
  if (!backend->vt->building) return NULL;
  TRY(backend->vt->building->request(stream, out->r));
  return backend->vt->building->build_all(stream, NULL, NULL);
}

static inline clave_status run_recorded(recorded *recorded, const bound_tensor *tensors,
                                        uint32_t number) {
  const run_operands operands = {.tensors = tensors, .scratch = recorded->scratch};
  return recorded->b->vt->run(recorded->s, recorded->r, &recorded->state, &operands, number);
}

static inline void free_recorded(recorded *recorded) {
  if (recorded->state) recorded->b->vt->state_destroy(recorded->s, recorded->state);
  recorded->b->vt->recording_destroy(recorded->b, recorded->r);
  recorded->b->vt->buffer_destroy(recorded->b, recorded->scratch);
  if (recorded->b->vt->building)
    recorded->b->vt->building->cache_destroy(recorded->b, recorded->cache);
}

/* Runs the node once. */
static inline clave_status run_once(backend *backend, stream *stream, const node *node,
                                    uint32_t number) {
  recorded recorded;
  clave_status st = make_recorded(backend, stream, *node, &recorded);
  if (!st) st = run_recorded(&recorded, node->tensors, number);
  free_recorded(&recorded);
  return st;
}

#endif
