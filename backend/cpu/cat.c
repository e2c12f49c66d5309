/* Records Cat: a copy of each operand to its slice of out. */
#include "ops/cat.h"

#include "backend/cpu/kernels/copy.h"
#include "cpu_ops.h"

clave_status cpu_cat(cpu_recorder *recorder, const node *node) {
  cat_desc desc;
  describe_cat(node, &desc);
  while (next_slice(&desc))
    TRY(cpu_launch(recorder, copy,
                   &(copy_args){.x = cpu_operand(recorder, desc.x),
                                .out = cpu_operand(recorder, &desc.slice)}));
  return NULL;
}
