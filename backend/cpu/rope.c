/* Records Rope: rotary position embedding. */
#include "ops/rope.h"

#include "backend/cpu/kernels/rope.h"
#include "cpu_ops.h"

clave_status cpu_rope(cpu_recorder *recorder, const node *node) {
  rope_desc desc;
  describe_rope(node, &desc);
  return cpu_launch(recorder, rope,
                    &(rope_args){.x = cpu_view(recorder, desc.x, &desc.rows),
                                 .cos = cpu_operand(recorder, desc.cos),
                                 .sin = cpu_operand(recorder, desc.sin),
                                 .out = cpu_operand(recorder, desc.out),
                                 .n_rows = desc.n_rows,
                                 .n_angles = desc.n_angles,
                                 .n_heads = desc.n_heads,
                                 .n_pairs = desc.n_pairs,
                                 .interleaved = desc.interleaved});
}
