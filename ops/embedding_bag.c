/* EmbeddingBag: reductions over groups of table rows. */
#include "ops/embedding_bag.h"

#include "ops/rule_checks.h"

static clave_status check_weights(const rule_context *c, const ir_embedding_bag *o) {
  const tensor *indices = rule_tensor(c, o->indices);
  if (o->weights != IR_NONE && o->kind != IR_EMBEDDING_BAG_KIND_SUM)
    return INVALID("weights: expected none except for the kind sum, got some");
  return check_optional(c, o->weights, "weights", rule_tensor(c, o->weight)->type, 1,
                        indices->dims);
}

clave_status rule_embedding_bag(const rule_context *c, const void *op) {
  const ir_embedding_bag *o = op;
  const tensor *weight = rule_tensor(c, o->weight), *offsets = rule_tensor(c, o->offsets);
  if ((uint32_t)o->kind >= IR_EMBEDDING_BAG_KIND_COUNT)
    return INVALID("embedding bag kind %u is unknown", (uint32_t)o->kind);
  TRY(check_float(c, o->weight, "weight"));
  TRY(check_index_dtype(c, o->indices, "indices"));
  TRY(check_index_dtype(c, o->offsets, "offsets"));
  if (weight->rank != 2) return INVALID("weight: expected rank 2, got %d", weight->rank);
  if (rule_tensor(c, o->indices)->rank != 1)
    return INVALID("indices: expected rank 1, got %d", rule_tensor(c, o->indices)->rank);
  if (offsets->rank != 1) return INVALID("offsets: expected rank 1, got %d", offsets->rank);
  if (o->include_last_offset && offsets->dims[0] == 0)
    return INVALID("offsets: expected at least the last offset, got none");
  TRY(check_weights(c, o));
  int64_t bags = offsets->dims[0];
  if (bags != DIM_UNKNOWN && o->include_last_offset) bags--;
  return rule_expect(c, o->out, "out", weight->type, 2, (int64_t[]){bags, weight->dims[1]});
}

/* ---------------------------------------------------------------- descriptions */

void describe_embedding_bag(const node *n, embedding_bag_form *f) {
  const ir_embedding_bag *op = n->instruction->op;
  *f = (embedding_bag_form){.kind = op->kind,
                            .weight = &n->tensors[op->weight],
                            .indices = &n->tensors[op->indices],
                            .offsets = &n->tensors[op->offsets],
                            .factors = operand_of(n, op->weights),
                            .out = &n->tensors[op->out],
                            .skips = op->padding_idx.present,
                            .skipped = op->padding_idx.value};
  f->bags = f->out->t.dims[0];
  f->dim = f->out->t.dims[1];
  f->rows = f->weight->t.dims[0];
  f->n = f->indices->t.dims[0];
  f->n_offsets = f->offsets->t.dims[0];
}
