/* GridSample: x sampled at the positions that a grid holds. */
#include "ops/grid_sample.h"

#include "ops/rule_checks.h"

static clave_status check_kinds(const rule_context *context, const ir_grid_sample *op) {
  int spatial = rule_tensor(context, op->x)->rank - 2;
  if ((uint32_t)op->mode >= IR_GRID_SAMPLE_MODE_COUNT)
    return INVALID("grid_sample mode %u is unknown", (uint32_t)op->mode);
  if ((uint32_t)op->padding >= IR_GRID_SAMPLE_PADDING_COUNT)
    return INVALID("grid_sample padding %u is unknown", (uint32_t)op->padding);
  if (spatial != 2 && spatial != 3) return INVALID("x: expected rank 4 or 5, got %d", spatial + 2);
  if (spatial == 3 && op->mode == IR_GRID_SAMPLE_MODE_BICUBIC)
    return INVALID("bicubic is for 2 spatial dimensions, x has 3");
  return check_float(context, op->x, "x");
}

clave_status rule_grid_sample(const rule_context *context, const void *op) {
  const ir_grid_sample *grid_sample = op;
  TRY(check_kinds(context, grid_sample));
  const tensor *x = rule_tensor(context, grid_sample->x),
               *grid = rule_tensor(context, grid_sample->grid);
  tensor want = {.type = x->type, .rank = x->rank}, points = want;
  if (grid->rank != x->rank) return INVALID("grid: expected rank %d, got %d", x->rank, grid->rank);
  for (int i = 2; i < x->rank; i++) {
    if (x->dims[i] == 0) return INVALID("spatial dimension %d of x is empty", i - 2);
    want.dims[i] = points.dims[i - 1] = grid->dims[i - 1];
  }
  points.dims[0] = want.dims[0] = dim_known(x->dims[0], grid->dims[0]);
  points.dims[x->rank - 1] = x->rank - 2;
  want.dims[1] = x->dims[1];
  TRY(rule_expect_like(context, grid_sample->grid, "grid", &points));
  return rule_expect_like(context, grid_sample->out, "out", &want);
}

void describe_grid_sample(const node *node, grid_sample_desc *desc) {
  const ir_grid_sample *op = node->instruction->op;
  const tensor *tensor = &node->tensors[op->x].tensor, *out = &node->tensors[op->out].tensor;
  *desc = (grid_sample_desc){.x = &node->tensors[op->x],
                             .grid = &node->tensors[op->grid],
                             .out = &node->tensors[op->out],
                             .mode = op->mode,
                             .padding = op->padding,
                             .align_corners = op->align_corners,
                             .n_dims = tensor->rank - 2,
                             .batch = tensor->dims[0],
                             .channels = tensor->dims[1],
                             .points = count_dims(out, 2, out->rank)};
  for (int d = 0; d < SPATIAL_DIMS; d++)
    desc->in[d] = d < desc->n_dims ? tensor->dims[tensor->rank - 1 - d] : 1;
}
