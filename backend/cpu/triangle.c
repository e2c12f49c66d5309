/* Triangle: tril and triu. */
#include "ops/triangle.h"

#include "backend/cpu/kernels/triangle.h"
#include "cpu_ops.h"

clave_status cpu_triangle(cpu_recorder *r, const node *n) {
  triangle_form f;
  describe_triangle(n, &f);
  return cpu_launch(r, triangle,
                    &(triangle_args){.x = cpu_view(r, f.x, &f.rows),
                                     .out = cpu_operand(r, f.out),
                                     .n_rows = f.n_rows,
                                     .columns = f.columns,
                                     .step = f.step,
                                     .diagonal = f.diagonal,
                                     .upper = f.upper});
}
