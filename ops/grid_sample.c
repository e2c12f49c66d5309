/* GridSample: x read at the positions that a grid holds. */
#include "ops/grid_sample.h"

#include "ops/rule_checks.h"

static clave_status check_kinds(const rule_context *c, const ir_grid_sample *o) {
  int spatial = rule_tensor(c, o->x)->rank - 2;
  if ((uint32_t)o->mode >= IR_GRID_SAMPLE_MODE_COUNT)
    return INVALID("grid_sample mode %u is unknown", (uint32_t)o->mode);
  if ((uint32_t)o->padding >= IR_GRID_SAMPLE_PADDING_COUNT)
    return INVALID("grid_sample padding %u is unknown", (uint32_t)o->padding);
  if (spatial != 2 && spatial != 3) return INVALID("x: expected rank 4 or 5, got %d", spatial + 2);
  if (spatial == 3 && o->mode == IR_GRID_SAMPLE_MODE_BICUBIC)
    return INVALID("bicubic is for 2 spatial dimensions, x has 3");
  return check_float(c, o->x, "x");
}

clave_status rule_grid_sample(const rule_context *c, const void *op) {
  const ir_grid_sample *o = op;
  TRY(check_kinds(c, o));
  const tensor *x = rule_tensor(c, o->x), *grid = rule_tensor(c, o->grid);
  tensor want = {.type = x->type, .rank = x->rank}, points = want;
  if (grid->rank != x->rank) return INVALID("grid: expected rank %d, got %d", x->rank, grid->rank);
  for (int i = 2; i < x->rank; i++) {
    if (x->dims[i] == 0) return INVALID("spatial dimension %d of x is empty", i - 2);
    want.dims[i] = points.dims[i - 1] = grid->dims[i - 1];
  }
  points.dims[0] = want.dims[0] = dim_known(x->dims[0], grid->dims[0]);
  points.dims[x->rank - 1] = x->rank - 2;
  want.dims[1] = x->dims[1];
  TRY(rule_expect_like(c, o->grid, "grid", &points));
  return rule_expect_like(c, o->out, "out", &want);
}

void describe_grid_sample(const node *n, grid_sample_form *f) {
  const ir_grid_sample *op = n->instruction->op;
  const tensor *x = &n->tensors[op->x].t, *out = &n->tensors[op->out].t;
  *f = (grid_sample_form){.x = &n->tensors[op->x],
                          .grid = &n->tensors[op->grid],
                          .out = &n->tensors[op->out],
                          .mode = op->mode,
                          .padding = op->padding,
                          .align_corners = op->align_corners,
                          .n_dims = x->rank - 2,
                          .batch = x->dims[0],
                          .channels = x->dims[1],
                          .points = count_dims(out, 2, out->rank)};
  for (int d = 0; d < SPATIAL_DIMS; d++) f->in[d] = d < f->n_dims ? x->dims[x->rank - 1 - d] : 1;
}
