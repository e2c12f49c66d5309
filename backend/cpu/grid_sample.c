/* Records GridSample. */
#include "ops/grid_sample.h"

#include "backend/cpu/kernels/grid_sample.h"
#include "cpu_ops.h"

static const kgrid_mode modes[IR_GRID_SAMPLE_MODE_COUNT] = {
    [IR_GRID_SAMPLE_MODE_BILINEAR] = KGRID_BILINEAR,
    [IR_GRID_SAMPLE_MODE_NEAREST] = KGRID_NEAREST,
    [IR_GRID_SAMPLE_MODE_BICUBIC] = KGRID_BICUBIC};
static const kgrid_padding paddings[IR_GRID_SAMPLE_PADDING_COUNT] = {
    [IR_GRID_SAMPLE_PADDING_ZEROS] = KGRID_ZEROS,
    [IR_GRID_SAMPLE_PADDING_BORDER] = KGRID_BORDER,
    [IR_GRID_SAMPLE_PADDING_REFLECTION] = KGRID_REFLECTION};

clave_status cpu_grid_sample(cpu_recorder *recorder, const node *node) {
  grid_sample_desc desc;
  describe_grid_sample(node, &desc);
  return cpu_launch(recorder, grid_sample,
                    &(grid_sample_args){.mode = modes[desc.mode],
                                        .padding = paddings[desc.padding],
                                        .align_corners = desc.align_corners,
                                        .type = desc.x->tensor.type,
                                        .n_dims = desc.n_dims,
                                        .x = cpu_operand(recorder, desc.x).data,
                                        .grid = cpu_operand(recorder, desc.grid).data,
                                        .out = cpu_operand(recorder, desc.out).data,
                                        .batch = desc.batch,
                                        .channels = desc.channels,
                                        .points = desc.points,
                                        .in = {desc.in[0], desc.in[1], desc.in[2]}});
}
