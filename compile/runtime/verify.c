/* A program's results of drawn inputs, beside those that were kept. */
#include "compile/runtime/verify.h"

#include <string.h>

#include "base/drawn.h"
#include "base/room.h"
#include "compile/runtime/arguments.h"

/* A run of a method: its tensors, of which the inputs' elements are ours. */
typedef struct drawn_run {
  const model_method *of;
  model_value *inputs, *outputs; /* owned */
  void **owned;                  /* (n_inputs) */
} drawn_run;

static void choose_dims(const model_method *of, const model_argument *a, int64_t *dims) {
  for (int i = 0; i < a->rank; i++) {
    const int size = model_size_of(a->dims[i]);
    dims[i] = size < 0 ? a->dims[i] : drawn_size(of->sizes[size].min, of->sizes[size].max);
  }
}

static clave_status draw_input(const drawn_run *r, int i, uint64_t *seed) {
  const model_argument *a = &r->of->inputs[i];
  size_t bytes;
  choose_dims(r->of, a, r->inputs[i].dims);
  if (!argument_bytes(a, r->inputs[i].dims, &bytes)) return status_no_memory();
  r->inputs[i].data = r->owned[i] = room_take(bytes + 1);
  if (!r->owned[i]) return status_no_memory();
  draw_elements(a->type, bytes / dtype_size(a->type), r->owned[i], seed);
  return NULL;
}

static clave_status draw_inputs(const drawn_run *r) {
  uint64_t seed = DRAWN_SEED;
  for (int i = 0; i < r->of->n_inputs; i++) TRY(draw_input(r, i, &seed));
  return NULL;
}

/* ---------------------------------------------------------------- results */

static clave_status other_bits(const model_argument *a, const model_info *info) {
  return INVALID("output '%s' has other bits than where it was compiled (%s)", a->name,
                 info->tests.processor);
}

static clave_status compare_elements(const model_info *info, const model_argument *a, size_t bytes,
                                     const void *data, const model_bytes *kept) {
  bool is_close = false;
  if (bytes != kept->size)
    return INVALID("output '%s': expected %zu bytes, as where it was compiled (%s), got %zu",
                   a->name, kept->size, info->tests.processor, bytes);
  if (!info->tests.is_close((int)a->type, bytes / dtype_size(a->type), data, kept->data, &is_close))
    return status_no_memory();
  return is_close
             ? NULL
             : INVALID("output '%s' differs from the CPU backend's by more than rounding", a->name);
}

static clave_status compare_output(const model_info *info, const model_test *test,
                                   const model_argument *a, const model_value *v, int i) {
  size_t bytes;
  char hex[SHA256_TEXT];
  if (!argument_bytes(a, v->dims, &bytes)) return other_bits(a, info);
  if (test->outputs) return compare_elements(info, a, bytes, v->data, &test->outputs[i]);
  digest_elements(a->type, bytes / dtype_size(a->type), v->data, hex);
  return strcmp(hex, test->digests[i]) == 0 ? NULL : other_bits(a, info);
}

/* ---------------------------------------------------------------- runs */

static clave_status run(model *m, const model_info *info, int method, const drawn_run *r) {
  TRY(draw_inputs(r));
  TRY(model_run(m, method, r->inputs, r->outputs));
  for (int i = 0; i < r->of->n_outputs; i++)
    TRY(compare_output(info, &info->tests.methods[method], &r->of->outputs[i], &r->outputs[i], i));
  return NULL;
}

static clave_status verify_method(model *m, const model_info *info, int method) {
  const model_method *of = &info->methods[method];
  drawn_run r = {.of = of};
  r.inputs = room_take(((size_t)of->n_inputs + 1) * sizeof *r.inputs);
  r.outputs = room_take(((size_t)of->n_outputs + 1) * sizeof *r.outputs);
  r.owned = room_take(((size_t)of->n_inputs + 1) * sizeof *r.owned);
  clave_status st =
      r.inputs && r.outputs && r.owned ? run(m, info, method, &r) : status_no_memory();
  for (int i = of->n_inputs - 1; r.owned && i >= 0; i--) room_give(r.owned[i]);
  room_give(r.owned);
  room_give(r.outputs);
  room_give(r.inputs);
  return info->n_methods > 1 ? status_while(st, "method %s", of->name) : st;
}

clave_status verify_model(model *m, int n_threads, int *n_outputs) {
  const model_info *info = model_get_info(m);
  *n_outputs = 0;
  if (!info->tests.methods)
    return UNSUPPORTED("--verify: no results were kept when it was compiled");
  TRY(model_start(m, n_threads));
  for (int i = 0; i < info->n_methods; i++) {
    if (i) TRY(model_reset(m));
    TRY(verify_method(m, info, i));
    *n_outputs += info->methods[i].n_outputs;
  }
  return NULL;
}

clave_status verify_another(int n_threads) {
  model *other;
  int n;
  TRY(model_create(&other));
  clave_status st = verify_model(other, n_threads, &n);
  model_destroy(other);
  return st;
}
