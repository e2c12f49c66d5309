/* Packs weights without a run: plans and prepares a method at sizes that its inputs may have. The
 * packed weights that kernels request hardly depend on sizes. */
#include <stdlib.h>
#include <string.h>
#include "interp/run/run.h"

enum { FEW_ROWS = 1, MANY_ROWS = 64 }; /* rows of a decoding step, and of a text or a batch */

/* Returns the value nearest to `wanted` within the program's bounds. */
static scalar_value choose_value(const ir_value *value, int64_t wanted) {
  int64_t i = wanted;
  if (value->max.present && i > value->max.value) i = value->max.value;
  if (value->min.present && i < value->min.value) i = value->min.value;
  if (value->type == IR_VALUE_TYPE_BOOL) i = 0;
  return (scalar_value){.known = true, .type = value->type, .i = i, .f = (double)i};
}

/* Sets the values that the session determines, and sets the values of inputs to numbers near
 * `wanted`. Sets *any if an input determines a value. */
static void choose_values(const session *session, uint32_t index, int64_t wanted,
                          scalar_value *values, bool *any) {
  const ir_program *program = &session->prog->ir;
  const ir_method *method = &program->methods.items[index];
  memcpy(values, session->sizes, program->values.count * sizeof *values);
  for (uint32_t i = 0; i < method->inputs.count; i++) {
    const ir_argument *argument = &method->inputs.items[i];
    if (argument->tensor == IR_NONE) {
      values[argument->value] = choose_value(&program->values.items[argument->value], wanted);
      *any = true;
      continue;
    }
    const ir_tensor *tensor = &program->tensors.items[argument->tensor];
    for (uint32_t k = 0; k < tensor->shape.count; k++) {
      uint32_t vid = tensor->shape.items[k].vid;
      if (vid == IR_NONE || session->sizes[vid].known) continue;
      values[vid] = choose_value(&program->values.items[vid], wanted);
      *any = true;
    }
  }
}

/* Prepares the method at sizes near `wanted`. Sets *any if the sizes are not fixed. */
static clave_status pack_at(session *session, uint32_t index, int64_t wanted, bool *any) {
  scalar_value *values = calloc((size_t)session->prog->ir.values.count + 1, sizeof *values);
  if (!values) return status_no_memory();
  choose_values(session, index, wanted, values, any);
  clave_status st = session_prepare(session, index, &(method_sizes){.values = values});
  free(values);
  return st;
}

clave_status session_pack(session *session, uint32_t index) {
  bool any = false;
  clave_status few = pack_at(session, index, FEW_ROWS, &any);
  if (!any) return few;
  clave_status many = pack_at(session, index, MANY_ROWS, &any);
  if (few && many) {
    status_free(many);
    return few;
  }
  status_free(few); /* an error at one size only: no inputs can have these sizes together */
  status_free(many);
  return NULL;
}
