/* Records Triangle: tril and triu. */
#include "ops/triangle.h"

#include "backend/cpu/kernels/triangle.h"
#include "cpu_ops.h"

clave_status cpu_triangle(cpu_recorder *recorder, const node *node) {
  triangle_desc desc;
  describe_triangle(node, &desc);
  return cpu_launch(recorder, triangle,
                    &(triangle_args){.x = cpu_view(recorder, desc.x, &desc.rows),
                                     .out = cpu_operand(recorder, desc.out),
                                     .n_rows = desc.n_rows,
                                     .columns = desc.columns,
                                     .step = desc.stride,
                                     .diagonal = desc.diagonal,
                                     .upper = desc.upper});
}
