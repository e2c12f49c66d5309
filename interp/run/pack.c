/* Forms of constants made ahead, without a run: a method is planned and prepared at sizes that its
 * inputs may have. What a device wants of a constant hardly depends on them. */
#include <stdlib.h>
#include <string.h>
#include "interp/run/run.h"

enum { FEW = 1, MANY = 64 }; /* rows: of a step, and of a text or a batch */

/* The value nearest to `wanted` that the program takes. */
static scalar_value choose_value(const ir_value *v, int64_t wanted) {
  int64_t i = wanted;
  if (v->max.present && i > v->max.value) i = v->max.value;
  if (v->min.present && i < v->min.value) i = v->min.value;
  if (v->type == IR_VALUE_TYPE_BOOL) i = 0;
  return (scalar_value){.known = true, .type = v->type, .i = i, .f = (double)i};
}

/* Gives the values that the method's inputs and the session bring; *any: inputs do. */
static void choose_values(const session *s, uint32_t index, int64_t wanted, scalar_value *values,
                          bool *any) {
  const ir_program *p = &s->prog->ir;
  const ir_method *m = &p->methods.items[index];
  memcpy(values, s->sizes, p->values.count * sizeof *values);
  for (uint32_t i = 0; i < m->inputs.count; i++) {
    const ir_argument *a = &m->inputs.items[i];
    if (a->tensor == IR_NONE) {
      values[a->value] = choose_value(&p->values.items[a->value], wanted);
      *any = true;
      continue;
    }
    const ir_tensor *t = &p->tensors.items[a->tensor];
    for (uint32_t k = 0; k < t->shape.count; k++) {
      uint32_t vid = t->shape.items[k].vid;
      if (vid == IR_NONE || s->sizes[vid].known) continue;
      values[vid] = choose_value(&p->values.items[vid], wanted);
      *any = true;
    }
  }
}

/* *any: the sizes are not fixed. */
static clave_status pack_at(session *s, uint32_t index, int64_t wanted, bool *any) {
  scalar_value *values = calloc((size_t)s->prog->ir.values.count + 1, sizeof *values);
  if (!values) return status_no_memory();
  choose_values(s, index, wanted, values, any);
  clave_status st = session_prepare(s, index, &(method_sizes){.values = values});
  free(values);
  return st;
}

clave_status session_pack(session *s, uint32_t index) {
  bool any = false;
  clave_status few = pack_at(s, index, FEW, &any);
  if (!any) return few;
  clave_status many = pack_at(s, index, MANY, &any);
  if (few && many) {
    status_free(many);
    return few;
  }
  status_free(few); /* no such sizes together */
  status_free(many);
  return NULL;
}
