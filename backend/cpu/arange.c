/* Arange and Full: the float fields serve float dtypes, the int fields all others. */
#include "backend/cpu/kernels/arange.h"

#include "cpu_ops.h"

clave_status cpu_arange(cpu_stream *s, const node *n) {
  const ir_arange *op = n->instruction->op;
  ktensor out = cpu_tensor(n, op->out);
  if (dtype_is_float(out.type)) {
    double start =
        op->start_float.present ? cpu_float(n, &op->start_float) : (double)cpu_int(n, &op->start);
    double step = op->step_float.present ? cpu_float(n, &op->step_float)
                  : op->step.present     ? (double)cpu_int(n, &op->step)
                                         : 1;
    kernel_arange_float(&s->kernel, start, step, &out);
    return NULL;
  }
  int64_t start = op->start.present ? cpu_int(n, &op->start) : 0;
  int64_t step = op->step.present ? cpu_int(n, &op->step) : 1;
  kernel_arange_int(&s->kernel, start, step, &out);
  return NULL;
}

clave_status cpu_full(cpu_stream *s, const node *n) {
  const ir_full *op = n->instruction->op;
  ktensor out = cpu_tensor(n, op->out);
  if (dtype_is_float(out.type)) {
    double value =
        op->value.present ? cpu_float(n, &op->value) : (double)cpu_int(n, &op->int_value);
    kernel_arange_float(&s->kernel, value, 0, &out);
  } else {
    kernel_arange_int(&s->kernel, op->int_value.present ? cpu_int(n, &op->int_value) : 0, 0, &out);
  }
  return NULL;
}
