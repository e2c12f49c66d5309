/* GridSample: operands for the kernel. */
#include "backend/cpu/kernels/grid_sample.h"

#include "backend/cpu/kernels/walk.h"
#include "cpu_ops.h"

static const kgrid_mode modes[IR_GRID_SAMPLE_MODE_COUNT] = {
    [IR_GRID_SAMPLE_MODE_BILINEAR] = KGRID_BILINEAR,
    [IR_GRID_SAMPLE_MODE_NEAREST] = KGRID_NEAREST,
    [IR_GRID_SAMPLE_MODE_BICUBIC] = KGRID_BICUBIC};
static const kgrid_padding paddings[IR_GRID_SAMPLE_PADDING_COUNT] = {
    [IR_GRID_SAMPLE_PADDING_ZEROS] = KGRID_ZEROS,
    [IR_GRID_SAMPLE_PADDING_BORDER] = KGRID_BORDER,
    [IR_GRID_SAMPLE_PADDING_REFLECTION] = KGRID_REFLECTION};

clave_status cpu_grid_sample(cpu_stream *s, const node *n) {
  const ir_grid_sample *op = n->instruction->op;
  ktensor x = cpu_tensor(n, op->x), grid = cpu_tensor(n, op->grid), out = cpu_tensor(n, op->out);
  grid_sample p = {.mode = modes[op->mode],
                   .padding = paddings[op->padding],
                   .align_corners = op->align_corners,
                   .type = x.type,
                   .n_dims = x.rank - 2,
                   .x = x.data,
                   .grid = grid.data,
                   .y = out.data,
                   .n = x.dims[0],
                   .channels = x.dims[1],
                   .points = product_of(out.dims + 2, out.rank - 2),
                   .in = {1, 1, 1}};
  for (int d = 0; d < p.n_dims; d++) p.in[d] = x.dims[x.rank - 1 - d];
  kernel_grid_sample(&s->kernel, &p);
  return NULL;
}
