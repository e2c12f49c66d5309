/* Dequantize, and IndexSelect of encoded constants (embeddings). */
#include "ops/dequantize.h"

#include "ops/rule_checks.h"

clave_status rule_dequantize(const rule_context *context, const void *op) {
  const ir_dequantize *dequantize = op;
  const tensor *x = rule_tensor(context, dequantize->x),
               *out = rule_tensor(context, dequantize->out);
  if (!x->encoding.kind) return INVALID("x: expected an encoded constant, got a plain tensor");
  if (!dtype_is_float(out->type) || out->type == DTYPE_F64)
    return INVALID("out: expected F32, F16 or BF16, got %s", dtype_name(out->type));
  return rule_expect(context, dequantize->out, "out", out->type, x->rank, x->dims);
}

static dequantize_desc op_dequantize_rows_of(const bound_tensor *tensor, const bound_tensor *out) {
  return (dequantize_desc){.x = tensor,
                           .out = out,
                           .rows = tensor_rows(&tensor->tensor),
                           .row = tensor_row(&tensor->tensor)};
}

void describe_dequantize(const node *node, dequantize_desc *desc) {
  const ir_dequantize *op = node->instruction->op;
  *desc = op_dequantize_rows_of(&node->tensors[op->x], &node->tensors[op->out]);
  desc->n_picks = desc->rows;
}

static void set_picks(const node *node, dequantize_desc *desc) {
  const ir_index_select *op = node->instruction->op;
  desc->index = &node->tensors[op->index];
  desc->places = desc->index->tensor;
  desc->places.offset = 0;
  tensors_collapse(&desc->places, 1);
  desc->n_picks = tensor_numel(&desc->places);
}

void describe_picked_rows(const node *node, dequantize_desc *desc) {
  const ir_index_select *op = node->instruction->op;
  *desc = op_dequantize_rows_of(&node->tensors[op->x], &node->tensors[op->out]);
  set_picks(node, desc);
}

/* Panels dequantize as code * scale - zero * scale, which rounds differently from (code - zero) *
 * scale, so encodings with zeros are excluded. */
static bool panels_are_exact(const tensor *tensor) {
  const encoding *encoding = &tensor->encoding;
  if (encoding->kind) return encoding->axis == 1 && !encoding->has_zeros;
  return tensor->type == DTYPE_F32 || tensor->type == DTYPE_F16 || tensor->type == DTYPE_BF16;
}

bool describe_panel_rows(const node *node, dequantize_desc *desc, bound_tensor *as_b) {
  const ir_index_select *op = node->instruction->op;
  const bound_tensor *operand = &node->tensors[op->x];
  const tensor *tensor = &operand->tensor;
  if (!operand->is_multiplied || tensor->rank != 2 || axis_of(op->axis, tensor->rank) != 0 ||
      !tensor_is_contiguous(tensor) || tensor_numel(tensor) == 0 || !panels_are_exact(tensor))
    return false;
  *desc = (dequantize_desc){.x = operand,
                            .out = &node->tensors[op->out],
                            .rows = tensor->dims[0],
                            .row = tensor->dims[1]};
  set_picks(node, desc);
  *as_b = *operand;
  if (tensor->encoding.kind) return true;
  for (int i = 0; i < 2; i++) {
    as_b->tensor.dims[i] = tensor->dims[1 - i];
    as_b->tensor.strides[i] = tensor->strides[1 - i];
  }
  return true;
}
