/* A program's results of drawn inputs, beside those that were kept. */
#include "compile/runtime/verify.h"

#include <stdio.h>
#include <string.h>

#include "base/drawn.h"
#include "base/room.h"
#include "compile/runtime/arguments.h"

static size_t count_of(const model_argument *a) {
  size_t n = 1;
  for (int i = 0; i < a->rank; i++) n *= (size_t)a->dims[i];
  return n;
}

static clave_status draw_inputs(const model_method *of, model_value *inputs, void **owned) {
  uint64_t seed = DRAWN_SEED;
  for (int i = 0; i < of->n_inputs; i++) {
    const model_argument *a = &of->inputs[i];
    const size_t n = count_of(a);
    inputs[i].data = owned[i] = room_take(n * dtype_size(a->type) + 1);
    if (!owned[i]) return status_no_memory();
    draw_elements(a->type, n, owned[i], &seed);
    memcpy(inputs[i].dims, a->dims, sizeof inputs[i].dims);
  }
  return NULL;
}

static clave_status compare(const model_info *info, const model_value *outputs) {
  const model_method *of = info->methods;
  for (int i = 0; i < of->n_outputs; i++) {
    char hex[SHA256_TEXT];
    digest_elements(of->outputs[i].type, count_of(&of->outputs[i]), outputs[i].data, hex);
    if (strcmp(hex, info->digests[i]) != 0)
      return INVALID("output '%s' has other bits than where it was compiled (%s)",
                     of->outputs[i].name, info->processor);
  }
  return NULL;
}

static clave_status run(model *m, const model_info *info, model_value *inputs, void **owned,
                        model_value *outputs) {
  TRY(draw_inputs(info->methods, inputs, owned));
  TRY(model_start(m, 0));
  TRY(model_run(m, 0, inputs, outputs));
  return compare(info, outputs);
}

clave_status verify_method(model *m) {
  const model_info *info = model_get_info(m);
  const model_method *of = info->methods;
  if (!info->digests) return UNSUPPORTED("--verify: no results were kept when it was compiled");
  model_value *inputs = room_take(((size_t)of->n_inputs + 1) * sizeof *inputs);
  model_value *outputs = room_take(((size_t)of->n_outputs + 1) * sizeof *outputs);
  void **owned = room_take(((size_t)of->n_inputs + 1) * sizeof *owned);
  clave_status st =
      inputs && outputs && owned ? run(m, info, inputs, owned, outputs) : status_no_memory();
  for (int i = of->n_inputs - 1; owned && i >= 0; i--) room_give(owned[i]);
  room_give(owned);
  room_give(outputs);
  room_give(inputs);
  if (!st)
    (void)printf("verified: %d outputs of drawn inputs are as clave computes them\n",
                 of->n_outputs);
  return st;
}
