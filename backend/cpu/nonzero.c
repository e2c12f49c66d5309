/* Nonzero. */
#include "ops/nonzero.h"

#include "backend/cpu/kernels/nonzero.h"
#include "cpu_ops.h"

clave_status cpu_nonzero(cpu_recorder *r, const node *n) {
  nonzero_form f;
  describe_nonzero(n, &f);
  return cpu_launch(r, nonzero,
                    &(nonzero_args){.x = cpu_operand(r, f.x),
                                    .out = cpu_operand(r, f.out),
                                    .count = cpu_operand(r, f.count),
                                    .n = f.n});
}
