/* Rope: rotary position embedding. */
#include "ops/rope.h"

#include "backend/cpu/kernels/rope.h"
#include "cpu_ops.h"

clave_status cpu_rope(cpu_recorder *r, const node *n) {
  rope_form f;
  describe_rope(n, &f);
  return cpu_launch(r, rope,
                    &(rope_args){.x = cpu_view(r, f.x, &f.rows),
                                 .cos = cpu_operand(r, f.cos),
                                 .sin = cpu_operand(r, f.sin),
                                 .out = cpu_operand(r, f.out),
                                 .n_rows = f.n_rows,
                                 .n_angles = f.n_angles,
                                 .n_heads = f.n_heads,
                                 .n_pairs = f.n_pairs,
                                 .interleaved = f.interleaved});
}
