/* SliceUpdate and IndexCopy: write only the updated part; the planner has put x's values into out.
 */
#include "ops/update.h"

#include "backend/cpu/kernels/copy.h"
#include "backend/cpu/scatter.h"
#include "cpu_ops.h"

clave_status cpu_slice_update(cpu_recorder *r, const node *n) {
  copy_form f;
  describe_slice_update(n, &f);
  return cpu_launch(r, copy,
                    &(copy_args){.x = cpu_operand(r, &f.x), .out = cpu_operand(r, &f.out)});
}

clave_status cpu_index_copy(cpu_recorder *r, const node *n) {
  scatter_form f;
  describe_index_copy(n, &f);
  return cpu_launch_scatter(r, &f);
}
