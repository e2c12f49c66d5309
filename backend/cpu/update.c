/* Records SliceUpdate and IndexCopy, which write only the replaced elements. The planner has
 * already copied x to out. */
#include "ops/update.h"

#include "backend/cpu/kernels/copy.h"
#include "backend/cpu/scatter.h"
#include "cpu_ops.h"

clave_status cpu_slice_update(cpu_recorder *recorder, const node *node) {
  copy_desc desc;
  describe_slice_update(node, &desc);
  return cpu_launch(
      recorder, copy,
      &(copy_args){.x = cpu_operand(recorder, &desc.x), .out = cpu_operand(recorder, &desc.out)});
}

clave_status cpu_index_copy(cpu_recorder *recorder, const node *node) {
  scatter_desc desc;
  describe_index_copy(node, &desc);
  return cpu_launch_scatter(recorder, &desc);
}
