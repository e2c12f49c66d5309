/* The models of a shared library, each with its last error. */
#include "compile/runtime/library.h"

#include <stdlib.h>
#include <string.h>

#include "base/float_env.h"
#include "base/memory.h"
#include "compile/runtime/core.h"
#include "compile/runtime/model.h"
#include "compile/runtime/verify.h"

typedef struct library_model {
  model *model;        /* owned */
  clave_status failed; /* owned */
  model_value *values; /* owned: (n_inputs + n_outputs) */
  int n_threads;
} library_model;

static const model_method *method(void) { return compiled_model.info.methods; }

static clave_status runtime_library_start(library_model *model) {
  model->values =
      calloc((size_t)(method()->n_inputs + method()->n_outputs) + 1, sizeof *model->values);
  if (!model->values) return status_no_memory();
  TRY(model_create(&model->model));
  return model_start(model->model, model->n_threads);
}

void *model_library_create(int n_threads) {
  OWN_FLOAT_ENV;
  library_model *model = calloc(1, sizeof *model);
  if (!model) return NULL;
  model->n_threads = n_threads;
  clave_status st = runtime_library_start(model);
  if (!st) return model;
  status_free(st);
  model_library_destroy(model);
  return NULL;
}

void model_library_destroy(void *library) {
  library_model *model = library;
  if (!model) return;
  model_destroy(model->model);
  status_free(model->failed);
  free(model->values);
  free(model);
}

/* Rejects outputs that overlap, because results are copied one after the other. */
static clave_status runtime_library_check_outputs(void *const *outputs) {
  for (int i = 1; i < method()->n_outputs; i++)
    for (int k = 0; k < i; k++) {
      const uintptr_t a = (uintptr_t)outputs[i], b = (uintptr_t)outputs[k];
      const size_t a_bytes = compiled_model.outputs[i].bytes,
                   b_bytes = compiled_model.outputs[k].bytes;
      if (a_bytes && b_bytes && a < b + b_bytes && b < a + a_bytes)
        return INVALID("outputs: expected separate memory, but outputs %d and %d overlap", k, i);
    }
  return NULL;
}

int model_library_run(void *library, const void *const *inputs, void *const *outputs) {
  OWN_FLOAT_ENV;
  library_model *model = library;
  const int n = method()->n_inputs;
  model_value *out = model->values + n;
  for (int i = 0; i < n; i++) model->values[i].data = inputs[i];
  status_free(model->failed);
  model->failed = runtime_library_check_outputs(outputs);
  if (!model->failed) model->failed = model_run(model->model, 0, model->values, out);
  for (int i = 0; !model->failed && i < method()->n_outputs; i++)
    if (compiled_model.outputs[i].bytes)
      memcpy(outputs[i], out[i].data, compiled_model.outputs[i].bytes);
  return model->failed != NULL;
}

const char *model_library_error(const void *library) {
  return status_message(((const library_model *)library)->failed);
}

void model_library_reset(void *library) {
  status_free(model_reset(((library_model *)library)->model));
}

int model_library_verify(void *library) {
  OWN_FLOAT_ENV;
  library_model *model = library;
  status_free(model->failed);
  model->failed = verify_another(model->n_threads);
  return model->failed != NULL;
}
