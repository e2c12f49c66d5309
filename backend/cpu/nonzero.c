/* Records Nonzero. */
#include "ops/nonzero.h"

#include "backend/cpu/kernels/nonzero.h"
#include "cpu_ops.h"

clave_status cpu_nonzero(cpu_recorder *recorder, const node *node) {
  nonzero_desc desc;
  describe_nonzero(node, &desc);
  return cpu_launch(recorder, nonzero,
                    &(nonzero_args){.x = cpu_operand(recorder, desc.x),
                                    .out = cpu_operand(recorder, desc.out),
                                    .count = cpu_operand(recorder, desc.count),
                                    .n = desc.n});
}
