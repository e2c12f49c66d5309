/* Records convolutions by Winograd's method. */
#include "backend/cpu/winograd.h"

#include "backend/cpu/epilogue.h"
#include "backend/cpu/kernels/conv/winograd.h"

clave_status record_winograd(cpu_recorder *recorder, const node *node, const conv_desc *desc,
                             int tile) {
  winograd_args args = {.x = cpu_operand(recorder, desc->x).data,
                        .weight = cpu_operand(recorder, desc->weight).data,
                        .bias = cpu_operand(recorder, desc->bias).data,
                        .out = cpu_operand(recorder, desc->out).data,
                        .x_type = desc->x->tensor.type,
                        .out_type = desc->out->tensor.type,
                        .weight_type = desc->weight->tensor.type,
                        .encoding = desc->weight->tensor.encoding,
                        .images = desc->images,
                        .groups = desc->groups,
                        .channels = desc->channels,
                        .outputs = desc->outputs,
                        .in_rows = desc->dims[1].in,
                        .in_columns = desc->dims[2].in,
                        .out_rows = desc->dims[1].out,
                        .out_columns = desc->dims[2].out,
                        .top = desc->dims[1].padding,
                        .left = desc->dims[2].padding,
                        .tile = tile};
  fuse_epilogue(recorder, node, (epilogue_shape){0}, 1, &args.epilogue, &args.steps);
  TRY(cpu_packed(recorder,
                 &(cpu_packed_request){.kind = CPU_PACKED_WINOGRAD,
                                       .x = desc->weight,
                                       .size = {desc->groups, tile, 0},
                                       .desc = &kernel_winograd_pack,
                                       .args = &args},
                 &args.packed));
  return cpu_launch(recorder, winograd, &args);
}
