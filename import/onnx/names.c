/* The names of values, in scopes: a body sees the names around it, and its own hide them. */
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "import/onnx/node.h"

enum { N_BUCKETS = 8192 };

clave_status onnx_names_create(onnx_import *onnx) {
  onnx->buckets = malloc(N_BUCKETS * sizeof *onnx->buckets);
  if (!onnx->buckets) return status_no_memory();
  for (int i = 0; i < N_BUCKETS; i++) onnx->buckets[i] = -1;
  return NULL;
}

void onnx_names_destroy(onnx_import *onnx) {
  free(onnx->bindings);
  free(onnx->buckets);
}

static uint32_t bucket_of(const char *name) {
  return (uint32_t)(hash_bytes(name, strlen(name)) % N_BUCKETS);
}

void onnx_bind(onnx_import *onnx, const char *name, value *value) {
  if (!array_reserve(&onnx->bindings, &onnx->cap_bindings, onnx->n_bindings + 1,
                     sizeof *onnx->bindings)) {
    import_end(onnx->im, status_no_memory());
    return;
  }
  int32_t *bucket = &onnx->buckets[bucket_of(name)];
  onnx->bindings[onnx->n_bindings] = (onnx_binding){name, value, *bucket};
  *bucket = (int32_t)onnx->n_bindings++;
}

onnx_binding *onnx_lookup(const onnx_import *onnx, const char *name) {
  const int32_t first = (int32_t)onnx->frame->first_binding;
  for (int32_t i = onnx->buckets[bucket_of(name)]; i >= first; i = onnx->bindings[i].next)
    if (strcmp(onnx->bindings[i].name, name) == 0) return &onnx->bindings[i];
  return NULL;
}

void onnx_unbind(onnx_import *onnx, size_t count) {
  while (onnx->n_bindings > count) {
    const onnx_binding *last = &onnx->bindings[--onnx->n_bindings];
    onnx->buckets[bucket_of(last->name)] = last->next;
  }
}
