/* Cat: tensors joined along one axis. */
#include "ops/cat.h"

#include "ops/rule_checks.h"

/* Adds one more tensor to `sum`, which has the dtype and shape of those before. */
static clave_status add_tensor(const tensor *x, int axis, tensor *sum) {
  char a[SHAPE_TEXT], b[SHAPE_TEXT];
  if (x->type != sum->type)
    return INVALID("expected %s, got %s", dtype_name(sum->type), dtype_name(x->type));
  if (x->rank != sum->rank) return INVALID("expected rank %d, got %d", sum->rank, x->rank);
  for (int i = 0; i < x->rank; i++) {
    if (i == axis) continue;
    if (!dim_matches(x->dims[i], sum->dims[i])) {
      return INVALID("expected the shape of %s except at axis %d, got %s",
                     tensor_shape_text(sum, b, SHAPE_TEXT), axis,
                     tensor_shape_text(x, a, SHAPE_TEXT));
    }
    sum->dims[i] = dim_known(sum->dims[i], x->dims[i]);
  }
  int64_t *size = &sum->dims[axis];
  if (*size == DIM_UNKNOWN || x->dims[axis] == DIM_UNKNOWN)
    *size = DIM_UNKNOWN;
  else if (!add_i64(*size, x->dims[axis], size))
    return INVALID("makes axis %d too large", axis);
  return NULL;
}

clave_status rule_cat(const rule_context *c, const void *op) {
  const ir_cat *o = op;
  if (o->xs.count == 0) return INVALID("xs is empty");
  tensor sum = *rule_tensor(c, o->xs.items[0]);
  int axis = 0;
  TRY(rule_axis(o->axis, sum.rank, &axis));
  for (uint32_t i = 1; i < o->xs.count; i++) {
    TRY(status_while(add_tensor(rule_tensor(c, o->xs.items[i]), axis, &sum), "xs[%u]", i));
  }
  return rule_expect_like(c, o->out, "out", &sum);
}

/* ---------------------------------------------------------------- descriptions */

void describe_cat(const node *n, cat_form *f) {
  const ir_cat *op = n->instruction->op;
  *f = (cat_form){.n = n, .axis = axis_of(op->axis, n->tensors[op->out].t.rank)};
}

bool next_part(cat_form *f) {
  const ir_cat *op = f->n->instruction->op;
  while (f->next < op->xs.count) {
    f->x = &f->n->tensors[op->xs.items[f->next++]];
    if (tensor_numel(&f->x->t) == 0) continue;
    f->part = f->n->tensors[op->out];
    f->part.t.dims[f->axis] = f->x->t.dims[f->axis];
    f->part.t.offset += f->at * f->part.t.strides[f->axis];
    f->at += f->x->t.dims[f->axis];
    return true;
  }
  return false;
}
