/* Compares a program's results on random inputs with the stored ones. */
#include "compile/runtime/verify.h"

#include <string.h>

#include "base/drawn.h"
#include "base/small_alloc.h"
#include "compile/runtime/arguments.h"

/* A run of a method: its tensors; the elements of inputs are owned here. */
typedef struct drawn_run {
  const model_method *of;
  model_value *inputs, *outputs; /* owned */
  void **owned;                  /* (n_inputs) */
} drawn_run;

static void choose_dims(const model_method *of, const model_argument *argument, int64_t *dims) {
  for (int i = 0; i < argument->rank; i++) {
    const int size = model_size_of(argument->dims[i]);
    dims[i] = size < 0 ? argument->dims[i] : drawn_size(of->sizes[size].min, of->sizes[size].max);
  }
}

static clave_status draw_input(const drawn_run *run, int i, uint64_t *seed) {
  const model_argument *argument = &run->of->inputs[i];
  size_t bytes;
  choose_dims(run->of, argument, run->inputs[i].dims);
  if (!argument_bytes(argument, run->inputs[i].dims, &bytes)) return status_no_memory();
  run->inputs[i].data = run->owned[i] = small_alloc(bytes + 1);
  if (!run->owned[i]) return status_no_memory();
  draw_elements(argument->type, bytes / dtype_size(argument->type), run->owned[i], seed);
  return NULL;
}

static clave_status draw_inputs(const drawn_run *run) {
  uint64_t seed = DRAWN_SEED;
  for (int i = 0; i < run->of->n_inputs; i++) TRY(draw_input(run, i, &seed));
  return NULL;
}

/* ---------------------------------------------------------------- results */

static clave_status other_bits(const model_argument *argument, const model_info *info) {
  return INVALID("output '%s' differs from the result on the processor that compiled it (%s)",
                 argument->name, info->tests.processor);
}

static clave_status compare_elements(const model_info *info, const model_argument *argument,
                                     size_t bytes, const void *data, const model_bytes *kept) {
  bool is_close = false;
  if (bytes != kept->size)
    return INVALID(
        "output '%s': expected %zu bytes, as on the processor that compiled it (%s), got %zu",
        argument->name, kept->size, info->tests.processor, bytes);
  if (!info->tests.is_close((int)argument->type, bytes / dtype_size(argument->type), data,
                            kept->data, &is_close))
    return status_no_memory();
  return is_close
             ? NULL
             : INVALID(
                   "output '%s' differs from the result of the CPU backend by more than rounding",
                   argument->name);
}

static clave_status compare_output(const model_info *info, const model_test *test,
                                   const model_argument *argument, const model_value *value,
                                   int i) {
  size_t bytes;
  char hex[SHA256_TEXT];
  if (!argument_bytes(argument, value->dims, &bytes)) return other_bits(argument, info);
  if (test->outputs) return compare_elements(info, argument, bytes, value->data, &test->outputs[i]);
  digest_elements(argument->type, bytes / dtype_size(argument->type), value->data, hex);
  return strcmp(hex, test->digests[i]) == 0 ? NULL : other_bits(argument, info);
}

/* ---------------------------------------------------------------- runs */

static clave_status runtime_verify_run(model *model, const model_info *info, int method,
                                       const drawn_run *drawn) {
  TRY(draw_inputs(drawn));
  TRY(model_run(model, method, drawn->inputs, drawn->outputs));
  for (int i = 0; i < drawn->of->n_outputs; i++)
    TRY(compare_output(info, &info->tests.methods[method], &drawn->of->outputs[i],
                       &drawn->outputs[i], i));
  return NULL;
}

static clave_status verify_method(model *model, const model_info *info, int method) {
  const model_method *of = &info->methods[method];
  drawn_run drawn_run = {.of = of};
  drawn_run.inputs = small_alloc(((size_t)of->n_inputs + 1) * sizeof *drawn_run.inputs);
  drawn_run.outputs = small_alloc(((size_t)of->n_outputs + 1) * sizeof *drawn_run.outputs);
  drawn_run.owned = small_alloc(((size_t)of->n_inputs + 1) * sizeof *drawn_run.owned);
  clave_status st = drawn_run.inputs && drawn_run.outputs && drawn_run.owned
                        ? runtime_verify_run(model, info, method, &drawn_run)
                        : status_no_memory();
  for (int i = of->n_inputs - 1; drawn_run.owned && i >= 0; i--) small_free(drawn_run.owned[i]);
  small_free(drawn_run.owned);
  small_free(drawn_run.outputs);
  small_free(drawn_run.inputs);
  return info->n_methods > 1 ? status_while(st, "method %s", of->name) : st;
}

clave_status verify_model(model *model, int n_threads, int *n_outputs) {
  const model_info *info = model_get_info(model);
  *n_outputs = 0;
  if (!info->tests.methods)
    return UNSUPPORTED(
        "--verify: this program was compiled without --verify, so it has no results to compare");
  TRY(model_start(model, n_threads));
  for (int i = 0; i < info->n_methods; i++) {
    if (i) TRY(model_reset(model));
    TRY(verify_method(model, info, i));
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
