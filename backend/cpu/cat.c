/* Cat: copies each operand to its place along the axis. */
#include "ops/cat.h"

#include "backend/cpu/kernels/copy.h"
#include "cpu_ops.h"

clave_status cpu_cat(cpu_recorder *recorder, const node *node) {
  cat_desc desc;
  describe_cat(node, &desc);
  while (next_part(&desc))
    TRY(cpu_launch(recorder, copy,
                   &(copy_args){.x = cpu_operand(recorder, desc.x),
                                .out = cpu_operand(recorder, &desc.part)}));
  return NULL;
}
