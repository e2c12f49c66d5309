/* Distance. */
#include "ops/distance.h"

#include "backend/cpu/kernels/distance.h"
#include "cpu_ops.h"

clave_status cpu_distance(cpu_recorder *r, const node *n) {
  distance_form f;
  describe_distance(n, &f);
  return cpu_launch(r, distance,
                    &(distance_args){.a = cpu_operand(r, f.a),
                                     .b = cpu_operand(r, f.b),
                                     .out = cpu_operand(r, f.out),
                                     .n_out = f.n_out,
                                     .n_a = f.n_a,
                                     .n_b = f.n_b,
                                     .m = f.m,
                                     .p = f.p});
}
