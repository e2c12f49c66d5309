/* The recorder, which each op function is given: it answers questions about the device and collects
 * the op's launches in a recording. */
#include <stdlib.h>
#include <string.h>

#include "backend/opencl/launch/stream.h"

const device_traits *recorder_traits(const cl_recorder *s) { return &s->device->entry->traits; }

bool recorder_takes_groups(const cl_recorder *s, int64_t n) {
  return (uint64_t)n <= recorder_traits(s)->most_groups;
}

bool recorder_is_fast(const cl_recorder *s) { return s->fast; }

void recorder_rounds(cl_recorder *s, rounding how) { s->out->base.rounds = how; }

const char *recorder_type(const cl_recorder *s) { return s->device->base.info.type; }

tuning_key recorder_key(const cl_recorder *s) {
  tuning_key k = tuning_key_begin(s->device->base.tuning, s->choices);
  if (s->fast) tuning_key_int(&k, "fast", 1);
  return k;
}

const kernel_variant *recorder_choose(cl_recorder *s, const variants *all, const tuning_key *key) {
  return tuning_choose(s->device->base.tuning, s->choices, all, key);
}

clave_status recorder_scratch(cl_recorder *s, size_t bytes) {
  if (bytes > s->device->base.info.max_alloc)
    return status_new(STATUS_NO_MEMORY,
                      "scratch of %zu bytes is larger than a buffer of the device may be", bytes);
  size_t *most = &s->out->base.scratch_bytes;
  if (bytes > *most) *most = bytes;
  return NULL;
}

bool recorder_may_pack(const cl_recorder *s, const bound_tensor *x) {
  return x->is_constant && s->out->base.n_weights < MAX_PACKED_WEIGHTS;
}

/* pack: owned from here on; NULL */
static int request_weight(cl_recorder *s, const pack_request *f, recording *pack) {
  recording *r = &s->out->base;
  r->weights[r->n_weights] = (packed_weight_request){.constant = f->x->constant,
                                                     .view = f->x->t,
                                                     .kind = (int)f->kind,
                                                     .bytes = f->bytes,
                                                     .pack = pack};
  memcpy(r->weights[r->n_weights].size, f->size, sizeof f->size);
  return r->n_weights++;
}

int recorder_packed_by_others(cl_recorder *s, const pack_request *f) {
  return request_weight(s, f, NULL);
}

clave_status recorder_pack(cl_recorder *s, const pack_request *f, int *number, cl_recorder **pack) {
  if (f->bytes > s->device->base.info.max_alloc)
    return status_new(STATUS_NO_MEMORY,
                      "a form of %zu bytes is larger than a buffer of the device may be", f->bytes);
  cl_recording *out = calloc(1, sizeof *out);
  if (!out) return status_no_memory();
  *number = request_weight(s, f, &out->base);
  s->pack->out = out;
  *pack = s->pack;
  return NULL;
}

clave_status recorder_add(cl_recorder *s, const recorded_launch *l, const launch_value *values) {
  cl_recording *r = s->out;
  size_t bytes = sizeof *values * (size_t)l->n_values;
  launch_value *copy = malloc(bytes + 1);
  if (!copy || !array_reserve(&r->launches, &r->capacity, (size_t)r->n + 1, sizeof *r->launches)) {
    free(copy);
    free(l->blas);
    if (l->instead) opencl_recording_destroy(&s->device->base, &l->instead->base);
    return status_no_memory();
  }
  if (bytes) memcpy(copy, values, bytes);
  r->launches[r->n] = *l;
  r->launches[r->n++].values = copy;
  return NULL;
}

void opencl_recording_destroy(backend *b, recording *base) {
  cl_recording *r = (cl_recording *)base;
  if (!r) return;
  for (int i = 0; i < r->n; i++) {
    const recorded_launch *l = &r->launches[i];
    free(l->values);
    free(l->blas);
    if (l->instead) opencl_recording_destroy(b, &l->instead->base);
  }
  for (int i = 0; i < r->base.n_weights; i++) opencl_recording_destroy(b, r->base.weights[i].pack);
  free(r->launches);
  free(r);
}
