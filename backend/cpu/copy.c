/* Copy: a contiguous copy of a strided operand. */
#include "ops/copy.h"

#include "backend/cpu/kernels/copy.h"
#include "cpu_ops.h"

clave_status cpu_copy(cpu_recorder *r, const node *n) {
  copy_form f;
  describe_copy(n, &f);
  return cpu_launch(r, copy,
                    &(copy_args){.x = cpu_operand(r, &f.x), .out = cpu_operand(r, &f.out)});
}
