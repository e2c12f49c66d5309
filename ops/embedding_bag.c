/* EmbeddingBag: reductions over bags, which are lists of table rows. */
#include "ops/embedding_bag.h"

#include "ops/rule_checks.h"

static clave_status check_weights(const rule_context *context, const ir_embedding_bag *op) {
  const tensor *indices = rule_tensor(context, op->indices);
  if (op->weights != IR_NONE && op->kind != IR_EMBEDDING_BAG_KIND_SUM)
    return INVALID("weights: expected none except for the kind sum, got some");
  return check_optional(context, op->weights, "weights", rule_tensor(context, op->weight)->type, 1,
                        indices->dims);
}

clave_status rule_embedding_bag(const rule_context *context, const void *op) {
  const ir_embedding_bag *embedding_bag = op;
  const tensor *weight = rule_tensor(context, embedding_bag->weight),
               *offsets = rule_tensor(context, embedding_bag->offsets);
  if ((uint32_t)embedding_bag->kind >= IR_EMBEDDING_BAG_KIND_COUNT)
    return INVALID("embedding bag kind %u is unknown", (uint32_t)embedding_bag->kind);
  TRY(check_float(context, embedding_bag->weight, "weight"));
  TRY(check_index_dtype(context, embedding_bag->indices, "indices"));
  TRY(check_index_dtype(context, embedding_bag->offsets, "offsets"));
  if (weight->rank != 2) return INVALID("weight: expected rank 2, got %d", weight->rank);
  if (rule_tensor(context, embedding_bag->indices)->rank != 1)
    return INVALID("indices: expected rank 1, got %d",
                   rule_tensor(context, embedding_bag->indices)->rank);
  if (offsets->rank != 1) return INVALID("offsets: expected rank 1, got %d", offsets->rank);
  if (embedding_bag->include_last_offset && offsets->dims[0] == 0)
    return INVALID("offsets: expected at least the last offset, got none");
  TRY(check_weights(context, embedding_bag));
  int64_t bags = offsets->dims[0];
  if (bags != DIM_UNKNOWN && embedding_bag->include_last_offset) bags--;
  return rule_expect(context, embedding_bag->out, "out", weight->type, 2,
                     (int64_t[]){bags, weight->dims[1]});
}

/* ---------------------------------------------------------------- descriptions */

void describe_embedding_bag(const node *node, embedding_bag_desc *desc) {
  const ir_embedding_bag *op = node->instruction->op;
  *desc = (embedding_bag_desc){.kind = op->kind,
                               .weight = &node->tensors[op->weight],
                               .indices = &node->tensors[op->indices],
                               .offsets = &node->tensors[op->offsets],
                               .factors = operand_of(node, op->weights),
                               .out = &node->tensors[op->out],
                               .skips = op->padding_idx.present,
                               .skipped = op->padding_idx.value};
  desc->bags = desc->out->tensor.dims[0];
  desc->dim = desc->out->tensor.dims[1];
  desc->rows = desc->weight->tensor.dims[0];
  desc->n = desc->indices->tensor.dims[0];
  desc->n_offsets = desc->offsets->tensor.dims[0];
}
