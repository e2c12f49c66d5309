/* Records Distance. */
#include "ops/distance.h"

#include "backend/cpu/kernels/distance.h"
#include "cpu_ops.h"

clave_status cpu_distance(cpu_recorder *recorder, const node *node) {
  distance_desc desc;
  describe_distance(node, &desc);
  return cpu_launch(recorder, distance,
                    &(distance_args){.a = cpu_operand(recorder, desc.a),
                                     .b = cpu_operand(recorder, desc.b),
                                     .out = cpu_operand(recorder, desc.out),
                                     .n_out = desc.n_out,
                                     .n_a = desc.n_a,
                                     .n_b = desc.n_b,
                                     .m = desc.m,
                                     .p = desc.p});
}
