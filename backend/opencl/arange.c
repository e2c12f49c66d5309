/* Arange and Full: tensors made of numbers alone. */
#include "opencl_ops.h"

static int64_t int_or_zero(const node *n, const ir_int_or_vid *v) {
  if (!v->present) return 0;
  return v->vid == IR_NONE ? v->literal : n->values[v->vid].i;
}

static double float_or_zero(const node *n, const ir_float_or_vid *v) {
  if (!v->present) return 0;
  if (v->vid == IR_NONE) return v->literal;
  const scalar_value *s = &n->values[v->vid];
  return s->type == IR_VALUE_TYPE_FLOAT ? s->f : (double)s->i;
}

static void begin(launch *l, cl_recorder *s, const node *n, const bound_tensor *out) {
  launch_begin(l, s, n);
  launch_dtype(l, "OUT_TYPE", out->t.type);
  launch_compute(l, out->t.type);
}

clave_status opencl_arange(cl_recorder *s, const node *n) {
  const ir_arange *op = n->instruction->op;
  const bound_tensor *out = &n->tensors[op->out];
  int64_t size = tensor_numel(&out->t);
  launch l;
  begin(&l, s, n, out);
  launch_args(&l, &(arange_args){.out = buffer_arg(out),
                                 .n = size,
                                 .start = float_or_zero(n, &op->start_float),
                                 .step = float_or_zero(n, &op->step_float),
                                 .int_start = int_or_zero(n, &op->start),
                                 .int_step = int_or_zero(n, &op->step)});
  return launch_items(&l, size);
}

clave_status opencl_full(cl_recorder *s, const node *n) {
  const ir_full *op = n->instruction->op;
  const bound_tensor *out = &n->tensors[op->out];
  int64_t size = tensor_numel(&out->t);
  launch l;
  begin(&l, s, n, out);
  launch_args(&l, &(full_args){.out = buffer_arg(out),
                               .n = size,
                               .value = float_or_zero(n, &op->value),
                               .int_value = int_or_zero(n, &op->int_value)});
  return launch_items(&l, size);
}
