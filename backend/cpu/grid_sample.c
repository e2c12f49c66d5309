/* GridSample. */
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

clave_status cpu_grid_sample(cpu_recorder *r, const node *n) {
  grid_sample_form f;
  describe_grid_sample(n, &f);
  return cpu_launch(r, grid_sample,
                    &(grid_sample_args){.mode = modes[f.mode],
                                        .padding = paddings[f.padding],
                                        .align_corners = f.align_corners,
                                        .type = f.x->t.type,
                                        .n_dims = f.n_dims,
                                        .x = cpu_operand(r, f.x).data,
                                        .grid = cpu_operand(r, f.grid).data,
                                        .out = cpu_operand(r, f.out).data,
                                        .batch = f.batch,
                                        .channels = f.channels,
                                        .points = f.points,
                                        .in = {f.in[0], f.in[1], f.in[2]}});
}
