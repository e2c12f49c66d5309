/* Copy: a contiguous copy of a strided operand; and of bytes as another dtype. */
#include "ops/copy.h"

#include "backend/cpu/kernels/copy.h"
#include "cpu_ops.h"

static clave_status launch_copy(cpu_recorder *r, const copy_form *f) {
  return cpu_launch(r, copy,
                    &(copy_args){.x = cpu_operand(r, &f->x), .out = cpu_operand(r, &f->out)});
}

clave_status cpu_copy(cpu_recorder *r, const node *n) {
  copy_form f;
  describe_copy(n, &f);
  return launch_copy(r, &f);
}

clave_status cpu_bitcast(cpu_recorder *r, const node *n) {
  copy_form f;
  describe_bitcast(n, &f);
  return launch_copy(r, &f);
}
