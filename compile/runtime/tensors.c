/* A shared library's models of any sizes: tensors in, tensors out. */
#include "compile/runtime/tensors.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "compile/runtime/arguments.h"
#include "compile/runtime/model.h"
#include "compile/runtime/verify.h"

typedef struct tensors_library {
  model *m;            /* owned */
  clave_status failed; /* owned: of the last call */
  int n_threads;
  bool is_ready; /* else it could not be started */
} tensors_library;

/* Keeps the status of a call in the place of its last one's. Whether it is an error. */
static int answer(clave_status *kept, clave_status st) {
  status_free(*kept);
  *kept = st;
  return st != NULL;
}

static clave_status start(tensors_library *l, model_note_fn note, void *ctx) {
  TRY(model_create(&l->m));
  model_set_note(l->m, note, ctx);
  return model_start(l->m, l->n_threads);
}

void *model_tensors_create(int n_threads, void (*note)(void *ctx, const char *line), void *ctx) {
  tensors_library *l = calloc(1, sizeof *l);
  if (!l) return NULL;
  l->n_threads = n_threads;
  l->is_ready = answer(&l->failed, start(l, note, ctx)) == 0;
  return l;
}

void model_tensors_destroy(void *library) {
  tensors_library *l = library;
  if (!l) return;
  model_destroy(l->m);
  status_free(l->failed);
  free(l);
}

const char *model_tensors_error(const void *library) {
  return status_message(((const tensors_library *)library)->failed);
}

/* ---------------------------------------------------------------- runs */

static clave_status find_method(const model_info *info, const char *name, int *out) {
  text t = {0};
  *out = 0;
  for (int i = 0; i < info->n_methods; i++) {
    if (name) text_printf(&t, "%s%s", i ? ", " : "", info->methods[i].name);
    if (name && strcmp(info->methods[i].name, name) != 0) continue;
    *out = i;
    text_free(&t);
    return NULL;
  }
  clave_status st = text_status(&t);
  if (!st) st = INVALID("no method '%s'; there are: %s", name, t.data);
  text_free(&t);
  return st;
}

static clave_status wrong_shape(const model_method *m, const model_argument *a,
                                const int64_t *dims) {
  text t = {0};
  append_type(&t, m, a);
  text_puts(&t, ", got (");
  for (int i = 0; i < a->rank; i++) text_printf(&t, "%s%" PRId64, i ? ", " : "", dims[i]);
  clave_status st = text_status(&t);
  if (!st) st = INVALID("input '%s': expected %s)", a->name, t.data);
  text_free(&t);
  return st;
}

static clave_status check_shape(const model_method *m, const model_argument *a,
                                const model_value *v) {
  bool fits = true;
  for (int i = 0; i < a->rank; i++)
    fits = fits && v->dims[i] >= 0 && (a->dims[i] < 0 || a->dims[i] == v->dims[i]);
  if (!fits) return wrong_shape(m, a, v->dims);
  size_t bytes;
  if (!argument_bytes(a, v->dims, &bytes)) return INVALID("input '%s': sizes overflow", a->name);
  return v->data || !bytes ? NULL : INVALID("input '%s' has no data", a->name);
}

static clave_status check_sizes(const model_method *m, const model_value *inputs,
                                given_input *given, int64_t *sizes) {
  for (int i = 0; i < m->n_sizes; i++) sizes[i] = SIZE_UNKNOWN;
  for (int i = 0; i < m->n_inputs; i++) {
    const model_argument *a = &m->inputs[i];
    TRY(check_shape(m, a, &inputs[i]));
    given[i] = (given_input){.from = a->name, .dims = inputs[i].dims};
    (void)argument_bytes(a, inputs[i].dims, &given[i].bytes);
  }
  return find_sizes(m, given, sizes);
}

static clave_status check_inputs(const model_method *m, const model_value *inputs) {
  given_input *given = calloc((size_t)m->n_inputs + 1, sizeof *given);
  int64_t *sizes = calloc((size_t)m->n_sizes + 1, sizeof *sizes);
  clave_status st = given && sizes ? check_sizes(m, inputs, given, sizes) : status_no_memory();
  free(given);
  free(sizes);
  return st;
}

static clave_status run(tensors_library *l, const char *name, const model_value *inputs,
                        model_value *outputs) {
  const model_info *info = model_get_info(l->m);
  int method;
  TRY(find_method(info, name, &method));
  TRY(check_inputs(&info->methods[method], inputs));
  return model_run(l->m, method, inputs, outputs);
}

int model_tensors_run(void *library, const char *method, const void *inputs, void *outputs) {
  tensors_library *l = library;
  return l->is_ready ? answer(&l->failed, run(l, method, inputs, outputs)) : 1;
}

int model_tensors_reset(void *library) {
  tensors_library *l = library;
  return l->is_ready ? answer(&l->failed, model_reset(l->m)) : 1;
}

int model_tensors_verify(void *library) {
  tensors_library *l = library;
  return l->is_ready ? answer(&l->failed, verify_another(l->n_threads)) : 1;
}
