/* Scatter: values combined into a tensor at positions that an index tensor holds. */
#include "ops/scatter.h"

#include "ops/rule_checks.h"

clave_status rule_scatter(const rule_context *c, const void *op) {
  const ir_scatter *o = op;
  const tensor *x = rule_tensor(c, o->x), *index = rule_tensor(c, o->index);
  int axis = 0;
  if ((uint32_t)o->kind >= IR_SCATTER_KIND_COUNT)
    return INVALID("scatter kind %u is unknown", (uint32_t)o->kind);
  if (o->kind != IR_SCATTER_KIND_ASSIGN) TRY(check_computed(c, o->x, "x"));
  TRY(check_index_dtype(c, o->index, "index"));
  TRY(rule_axis(o->axis, x->rank, &axis));
  TRY(check_index_fits(x, index, axis));
  TRY(rule_expect(c, o->source, "source", x->type, index->rank, index->dims));
  return rule_expect_like(c, o->out, "out", x);
}

/* ---------------------------------------------------------------- descriptions */

/* The first of the dimensions behind the axis over which the index stays the same. */
static int first_behind(const tensor *index, int axis) {
  int first = index->rank;
  while (first > axis + 1 && (index->strides[first - 1] == 0 || index->dims[first - 1] == 1))
    first--;
  return first;
}

scatter_form scatter_along(ir_scatter_kind kind, const bound_tensor *index,
                           const tensor *index_layout, const bound_tensor *source,
                           const bound_tensor *out, int axis) {
  const tensor *all[SCATTER_OPERANDS] = {index_layout, &source->t, &out->t};
  int rank = index_layout->rank, first = first_behind(index_layout, axis);
  scatter_form f = {.kind = kind,
                    .axis = axis,
                    .index = *index,
                    .source = source,
                    .out = out,
                    .n = index_layout->dims[axis],
                    .size = out->t.dims[axis]};
  for (int k = 0; k < SCATTER_OPERANDS; k++) {
    tensor t = *all[k];
    for (int d = 0; d < rank; d++) t.dims[d] = index_layout->dims[d];
    f.step[k] = t.strides[axis];
    f.back[k] = take_dims(&t, first, rank);
    t.dims[axis] = 1;
    f.front[k] = take_dims(&t, 0, first);
  }
  tensors_collapse(f.front, SCATTER_OPERANDS);
  tensors_collapse(f.back, SCATTER_OPERANDS);
  f.index.t = take_dims(index_layout, 0, first);
  f.index.t.type = index->t.type;
  f.index.t.offset = index->t.offset;
  return f;
}

void describe_scatter(const node *n, scatter_form *f) {
  const ir_scatter *op = n->instruction->op;
  const bound_tensor *index = &n->tensors[op->index], *out = &n->tensors[op->out];
  *f = scatter_along(op->kind, index, &index->t, &n->tensors[op->source], out,
                     axis_of(op->axis, out->t.rank));
  f->wrap = op->wrap;
}
