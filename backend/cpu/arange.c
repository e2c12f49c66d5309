/* Records Arange and Full. */
#include "ops/arange.h"

#include "backend/cpu/kernels/arange.h"
#include "cpu_ops.h"

static clave_status launch_arange(cpu_recorder *recorder, const arange_desc *desc) {
  return cpu_launch(recorder, arange,
                    &(arange_args){.out = cpu_operand(recorder, desc->out).data,
                                   .type = desc->out->tensor.type,
                                   .n = desc->n,
                                   .start = desc->start,
                                   .step = desc->step,
                                   .int_start = desc->int_start,
                                   .int_step = desc->int_step});
}

clave_status cpu_arange(cpu_recorder *recorder, const node *node) {
  arange_desc desc;
  describe_arange(node, &desc);
  return launch_arange(recorder, &desc);
}

clave_status cpu_full(cpu_recorder *recorder, const node *node) {
  arange_desc desc;
  describe_full(node, &desc);
  return launch_arange(recorder, &desc);
}
