/* Records Copy, which makes strided operands contiguous, and Bitcast, which copies bytes. */
#include "ops/copy.h"

#include "backend/cpu/kernels/copy.h"
#include "cpu_ops.h"

static clave_status launch_copy(cpu_recorder *recorder, const copy_desc *desc) {
  return cpu_launch(
      recorder, copy,
      &(copy_args){.x = cpu_operand(recorder, &desc->x), .out = cpu_operand(recorder, &desc->out)});
}

clave_status cpu_copy(cpu_recorder *recorder, const node *node) {
  copy_desc desc;
  describe_copy(node, &desc);
  return launch_copy(recorder, &desc);
}

clave_status cpu_bitcast(cpu_recorder *recorder, const node *node) {
  copy_desc desc;
  describe_bitcast(node, &desc);
  return launch_copy(recorder, &desc);
}
