/* Records Upsample. */
#include "ops/upsample.h"

#include <string.h>

#include "backend/cpu/kernels/upsample.h"
#include "cpu_ops.h"

clave_status cpu_upsample(cpu_recorder *recorder, const node *node) {
  upsample_desc desc;
  describe_upsample(node, &desc);
  upsample_args args = {.x = cpu_operand(recorder, desc.x).data,
                        .out = cpu_operand(recorder, desc.out).data,
                        .x_type = desc.x->tensor.type,
                        .out_type = desc.out->tensor.type,
                        .planes = desc.planes,
                        .precision = desc.precision};
  memcpy(args.axes, desc.axes, sizeof args.axes);
  return cpu_launch(recorder, upsample, &args);
}
