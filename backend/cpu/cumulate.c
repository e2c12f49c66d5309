/* Cumulate along any axis. */
#include "backend/cpu/kernels/cumulate.h"

#include "cpu_ops.h"

static const kcumulate_kind kinds[IR_CUMULATE_KIND_COUNT] = {
    [IR_CUMULATE_KIND_SUM] = KCUMULATE_SUM,
    [IR_CUMULATE_KIND_PROD] = KCUMULATE_PROD,
    [IR_CUMULATE_KIND_MAX] = KCUMULATE_MAX,
    [IR_CUMULATE_KIND_MIN] = KCUMULATE_MIN,
    [IR_CUMULATE_KIND_LOGSUMEXP] = KCUMULATE_LOGSUMEXP,
};

clave_status cpu_cumulate(cpu_stream *s, const node *n) {
  const ir_cumulate *op = n->instruction->op;
  ktensor x = cpu_tensor(n, op->x), out = cpu_tensor(n, op->out), indices;
  int axis = cpu_axis(op->axis, x.rank);
  x = cpu_axis_last(&x, axis);
  out = cpu_axis_last(&out, axis);
  if (op->indices != IR_NONE) {
    indices = cpu_tensor(n, op->indices);
    indices = cpu_axis_last(&indices, axis);
  }
  kernel_cumulate(&s->kernel, kinds[op->kind], &x, &out, op->indices != IR_NONE ? &indices : NULL);
  return NULL;
}
