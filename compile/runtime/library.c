/* A shared library's models, each with its last error. */
#include "compile/runtime/library.h"

#include <stdlib.h>

#include "compile/runtime/model.h"

typedef struct library_model {
  model *m;            /* owned */
  clave_status failed; /* owned */
} library_model;

void *model_library_create(int n_threads) {
  library_model *l = calloc(1, sizeof *l);
  if (!l) return NULL;
  clave_status st = model_create(&compiled_model, n_threads, &l->m);
  if (!st) return l;
  status_free(st);
  free(l);
  return NULL;
}

void model_library_destroy(void *library) {
  library_model *l = library;
  if (!l) return;
  model_destroy(l->m);
  status_free(l->failed);
  free(l);
}

int model_library_run(void *library, const void *const *inputs, void *const *outputs) {
  library_model *l = library;
  status_free(l->failed);
  l->failed = model_run(l->m, inputs, outputs);
  return l->failed != NULL;
}

const char *model_library_error(const void *library) {
  return status_message(((const library_model *)library)->failed);
}

void model_library_reset(void *library) { model_reset(((library_model *)library)->m); }
