/* Dequantize, and IndexSelect of encoded constants (embeddings). */
#include "ops/dequantize.h"

#include "ops/rule_checks.h"

clave_status rule_dequantize(const rule_context *c, const void *op) {
  const ir_dequantize *o = op;
  const tensor *x = rule_tensor(c, o->x), *out = rule_tensor(c, o->out);
  if (!x->encoding.kind) return INVALID("x: expected an encoded constant, got a plain tensor");
  if (!dtype_is_float(out->type) || out->type == DTYPE_F64)
    return INVALID("out: expected F32, F16 or BF16, got %s", dtype_name(out->type));
  return rule_expect(c, o->out, "out", out->type, x->rank, x->dims);
}

static dequantize_form rows_of(const bound_tensor *x, const bound_tensor *out) {
  return (dequantize_form){
      .x = x, .out = out, .rows = tensor_rows(&x->t), .row = tensor_row(&x->t)};
}

void describe_dequantize(const node *n, dequantize_form *f) {
  const ir_dequantize *op = n->instruction->op;
  *f = rows_of(&n->tensors[op->x], &n->tensors[op->out]);
  f->n_picks = f->rows;
}

static void set_picks(const node *n, dequantize_form *f) {
  const ir_index_select *op = n->instruction->op;
  f->index = &n->tensors[op->index];
  f->places = f->index->t;
  f->places.offset = 0;
  tensors_collapse(&f->places, 1);
  f->n_picks = tensor_numel(&f->places);
}

void describe_picked_rows(const node *n, dequantize_form *f) {
  const ir_index_select *op = n->instruction->op;
  *f = rows_of(&n->tensors[op->x], &n->tensors[op->out]);
  set_picks(n, f);
}

/* Panels have -zero * scale for a zero, which rounds otherwise than (code - zero) * scale. */
static bool panels_are_exact(const tensor *x) {
  const encoding *e = &x->encoding;
  if (e->kind) return e->axis == 1 && !e->has_zeros;
  return x->type == DTYPE_F32 || x->type == DTYPE_F16 || x->type == DTYPE_BF16;
}

bool describe_panel_rows(const node *n, dequantize_form *f, bound_tensor *as_b) {
  const ir_index_select *op = n->instruction->op;
  const bound_tensor *x = &n->tensors[op->x];
  const tensor *t = &x->t;
  if (!x->is_multiplied || t->rank != 2 || axis_of(op->axis, t->rank) != 0 ||
      !tensor_is_contiguous(t) || tensor_numel(t) == 0 || !panels_are_exact(t))
    return false;
  *f =
      (dequantize_form){.x = x, .out = &n->tensors[op->out], .rows = t->dims[0], .row = t->dims[1]};
  set_picks(n, f);
  *as_b = *x;
  if (t->encoding.kind) return true;
  for (int i = 0; i < 2; i++) {
    as_b->t.dims[i] = t->dims[1 - i];
    as_b->t.strides[i] = t->strides[1 - i];
  }
  return true;
}
