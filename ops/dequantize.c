/* Dequantize, and IndexSelect of encoded constants (embeddings). */
#include "ops/dequantize.h"

#include "ops/rule_checks.h"

clave_status rule_dequantize(const rule_context *c, const void *op) {
  const ir_dequantize *o = op;
  const tensor *x = rule_tensor(c, o->x), *out = rule_tensor(c, o->out);
  if (!x->encoding.kind) return INVALID("x is plain, expected an encoded constant");
  if (!dtype_is_float(out->type) || out->type == DTYPE_F64)
    return INVALID("out is %s, expected F32, F16 or BF16", dtype_name(out->type));
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

void describe_picked_rows(const node *n, dequantize_form *f) {
  const ir_index_select *op = n->instruction->op;
  *f = rows_of(&n->tensors[op->x], &n->tensors[op->out]);
  f->index = &n->tensors[op->index];
  f->places = f->index->t;
  f->places.offset = 0;
  tensors_collapse(&f->places, 1);
  f->n_picks = tensor_numel(&f->places);
}
