/* What a compiled program computes of drawn inputs, as the interpreter does. */
#include "compile/self_test.h"

#include <stdlib.h>

#include "interp/interp.h"
#include "interp/scalar.h"

static size_t bytes_of(const tensor *t) { return (size_t)tensor_numel(t) * dtype_size(t->type); }

size_t self_test_bytes(const compile_plan *k) {
  const ir_arguments *all = &k->g->method->inputs;
  size_t bytes = 0;
  for (uint32_t i = 0; i < all->count; i++)
    if (all->items[i].tensor != IR_NONE)
      bytes += plan_aligned(bytes_of(&k->p->types[all->items[i].tensor]));
  return bytes;
}

static clave_status set_scalar(const compile_plan *k, session *s, uint32_t i) {
  unsigned char bytes[8];
  host_tensor h = {.data = bytes};
  scalar_to_bytes(&k->p->values[k->g->method->inputs.items[i].value], &h.t, bytes);
  return session_set_input(s, k->method, i, &h);
}

static clave_status set_input(const compile_plan *k, session *s, uint32_t i, uint64_t *seed) {
  const ir_argument *a = &k->g->method->inputs.items[i];
  if (a->tensor == IR_NONE) return set_scalar(k, s, i);
  host_tensor h = {.t = k->p->types[a->tensor]};
  tensor_set_contiguous(&h.t);
  h.data = malloc(bytes_of(&h.t) + 1);
  if (!h.data) return status_no_memory();
  draw_elements(h.t.type, (size_t)tensor_numel(&h.t), h.data, seed);
  clave_status st = session_set_input(s, k->method, i, &h);
  free(h.data);
  return st;
}

static clave_status run(const compile_plan *k, session *s, digest *out) {
  const ir_method *m = k->g->method;
  uint64_t seed = DRAWN_SEED;
  for (uint32_t i = 0; i < m->inputs.count; i++) TRY(set_input(k, s, i, &seed));
  TRY(session_run(s, k->method));
  for (uint32_t i = 0; i < m->outputs.count; i++) {
    host_tensor h;
    TRY(session_output(s, k->method, i, &h));
    digest_elements(h.t.type, (size_t)tensor_numel(&h.t), h.data, out[i].hex);
  }
  return NULL;
}

clave_status self_test_run(const compile_plan *k, digest **out) {
  session *s = NULL;
  *out = calloc((size_t)k->g->method->outputs.count + 1, sizeof **out);
  clave_status st = *out ? NULL : status_no_memory();
  if (!st) st = session_create(k->x, &k->constants, &(session_options){0}, &s);
  if (!st) st = run(k, s, *out);
  session_destroy(s);
  if (!st) return NULL;
  free(*out);
  *out = NULL;
  return status_while(st, "running it on drawn inputs, whose results --verify would keep");
}
