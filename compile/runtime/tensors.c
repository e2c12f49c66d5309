/* The models of a shared library with open sizes: tensors in, tensors out. */
#include "compile/runtime/tensors.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "compile/runtime/arguments.h"
#include "compile/runtime/model.h"
#include "compile/runtime/verify.h"

typedef struct tensors_library {
  model *model;        /* owned */
  clave_status failed; /* owned; status of the last call */
  int n_threads;
  bool is_ready; /* false: the start failed */
} tensors_library;

/* Replaces the kept status by that of the latest call. Returns nonzero if it is an error. */
static int runtime_tensors_answer(clave_status *kept, clave_status st) {
  status_free(*kept);
  *kept = st;
  return st != NULL;
}

static clave_status runtime_tensors_start(tensors_library *library, model_note_fn note, void *ctx) {
  TRY(model_create(&library->model));
  model_set_note(library->model, note, ctx);
  return model_start(library->model, library->n_threads);
}

void *model_tensors_create(int n_threads, void (*note)(void *ctx, const char *line), void *ctx) {
  tensors_library *library = calloc(1, sizeof *library);
  if (!library) return NULL;
  library->n_threads = n_threads;
  library->is_ready =
      runtime_tensors_answer(&library->failed, runtime_tensors_start(library, note, ctx)) == 0;
  return library;
}

void model_tensors_destroy(void *library) {
  tensors_library *self = library;
  if (!self) return;
  model_destroy(self->model);
  status_free(self->failed);
  free(self);
}

const char *model_tensors_error(const void *library) {
  return status_message(((const tensors_library *)library)->failed);
}

/* ---------------------------------------------------------------- runs */

static clave_status runtime_tensors_find_method(const model_info *info, const char *name,
                                                int *out) {
  text text = {0};
  *out = 0;
  for (int i = 0; i < info->n_methods; i++) {
    if (name) text_printf(&text, "%s%s", i ? ", " : "", info->methods[i].name);
    if (name && strcmp(info->methods[i].name, name) != 0) continue;
    *out = i;
    text_free(&text);
    return NULL;
  }
  clave_status st = text_status(&text);
  if (!st) st = INVALID("unknown method '%s'; the methods are %s", name, text.data);
  text_free(&text);
  return st;
}

static clave_status wrong_shape(const model_method *method, const model_argument *argument,
                                const int64_t *dims) {
  text text = {0};
  append_type(&text, method, argument);
  text_puts(&text, ", got (");
  for (int i = 0; i < argument->rank; i++) text_printf(&text, "%s%" PRId64, i ? ", " : "", dims[i]);
  clave_status st = text_status(&text);
  if (!st) st = INVALID("input '%s': expected %s)", argument->name, text.data);
  text_free(&text);
  return st;
}

static clave_status runtime_tensors_check_shape(const model_method *method,
                                                const model_argument *argument,
                                                const model_value *value) {
  bool fits = true;
  for (int i = 0; i < argument->rank; i++)
    fits = fits && value->dims[i] >= 0 &&
           (argument->dims[i] < 0 || argument->dims[i] == value->dims[i]);
  if (!fits) return wrong_shape(method, argument, value->dims);
  size_t bytes;
  if (!argument_bytes(argument, value->dims, &bytes))
    return INVALID("input '%s': its size overflows", argument->name);
  return value->data || !bytes ? NULL
                               : INVALID("input '%s': the data pointer is NULL", argument->name);
}

static clave_status runtime_tensors_check_sizes(const model_method *method,
                                                const model_value *inputs, given_input *given,
                                                int64_t *sizes) {
  for (int i = 0; i < method->n_sizes; i++) sizes[i] = SIZE_UNKNOWN;
  for (int i = 0; i < method->n_inputs; i++) {
    const model_argument *argument = &method->inputs[i];
    TRY(runtime_tensors_check_shape(method, argument, &inputs[i]));
    given[i] = (given_input){.from = argument->name, .dims = inputs[i].dims};
    (void)argument_bytes(argument, inputs[i].dims, &given[i].bytes);
  }
  return find_sizes(method, given, sizes);
}

static clave_status runtime_tensors_check_inputs(const model_method *method,
                                                 const model_value *inputs) {
  given_input *given = calloc((size_t)method->n_inputs + 1, sizeof *given);
  int64_t *sizes = calloc((size_t)method->n_sizes + 1, sizeof *sizes);
  clave_status st = given && sizes ? runtime_tensors_check_sizes(method, inputs, given, sizes)
                                   : status_no_memory();
  free(given);
  free(sizes);
  return st;
}

static clave_status runtime_tensors_run(tensors_library *library, const char *name,
                                        const model_value *inputs, model_value *outputs) {
  const model_info *info = model_get_info(library->model);
  int method;
  TRY(runtime_tensors_find_method(info, name, &method));
  TRY(runtime_tensors_check_inputs(&info->methods[method], inputs));
  return model_run(library->model, method, inputs, outputs);
}

int model_tensors_run(void *library, const char *method, const void *inputs, void *outputs) {
  tensors_library *self = library;
  return self->is_ready ? runtime_tensors_answer(&self->failed,
                                                 runtime_tensors_run(self, method, inputs, outputs))
                        : 1;
}

int model_tensors_reset(void *library) {
  tensors_library *self = library;
  return self->is_ready ? runtime_tensors_answer(&self->failed, model_reset(self->model)) : 1;
}

int model_tensors_verify(void *library) {
  tensors_library *self = library;
  return self->is_ready ? runtime_tensors_answer(&self->failed, verify_another(self->n_threads))
                        : 1;
}
