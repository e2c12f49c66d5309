/* Records Dequantize, and IndexSelect of encoded constants. */
#include "ops/dequantize.h"

#include "backend/cpu/dequantize.h"
#include "backend/cpu/kernels/dequantize.h"
#include "cpu_ops.h"

static clave_status cpu_dequantize_launch_rows(cpu_recorder *recorder,
                                               const dequantize_desc *desc) {
  return cpu_launch(
      recorder, dequantize,
      &(dequantize_args){
          .x = cpu_operand(recorder, desc->x).data,
          .index = desc->index ? cpu_view(recorder, desc->index, &desc->places) : (ktensor){0},
          .out = cpu_operand(recorder, desc->out).data,
          .type = desc->out->tensor.type,
          .encoding = desc->x->tensor.encoding,
          .rows = desc->rows,
          .row = desc->row,
          .n_picks = desc->n_picks});
}

clave_status cpu_dequantize(cpu_recorder *recorder, const node *node) {
  dequantize_desc desc;
  describe_dequantize(node, &desc);
  return cpu_dequantize_launch_rows(recorder, &desc);
}

clave_status cpu_pick_rows(cpu_recorder *recorder, const node *node) {
  dequantize_desc desc;
  describe_picked_rows(node, &desc);
  return cpu_dequantize_launch_rows(recorder, &desc);
}
