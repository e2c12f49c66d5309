/* SearchSorted: binary search in ascending rows. */
#include "ops/search.h"

#include "ops/rule_checks.h"

/* Fails unless boundaries has a single row for all of input, or input's leading dimensions. */
static clave_status check_rows(const tensor *right, const tensor *input) {
  char have[SHAPE_TEXT], want[SHAPE_TEXT];
  bool fits = right->rank == 1 || right->rank == input->rank;
  for (int i = 0; fits && right->rank > 1 && i + 1 < input->rank; i++)
    fits = dim_matches(right->dims[i], input->dims[i]);
  if (fits) return NULL;
  return INVALID("boundaries: expected one dimension or all but the last of %s, got shape %s",
                 tensor_shape_text(input, want, SHAPE_TEXT),
                 tensor_shape_text(right, have, SHAPE_TEXT));
}

clave_status rule_search_sorted(const rule_context *context, const void *op) {
  const ir_search_sorted *search_sorted = op;
  const tensor *boundaries = rule_tensor(context, search_sorted->boundaries),
               *x = rule_tensor(context, search_sorted->x);
  TRY(check_rank_at_least(context, search_sorted->boundaries, "boundaries", 1));
  TRY(check_not_bool(context, search_sorted->x, "x"));
  TRY(rule_expect(context, search_sorted->boundaries, "boundaries", x->type, boundaries->rank,
                  boundaries->dims));
  TRY(check_rows(boundaries, x));
  TRY(check_optional(context, search_sorted->sorter, "sorter", DTYPE_I64, boundaries->rank,
                     boundaries->dims));
  TRY(check_index_dtype(context, search_sorted->out, "out"));
  return rule_expect(context, search_sorted->out, "out",
                     rule_tensor(context, search_sorted->out)->type, x->rank, x->dims);
}

void describe_search_sorted(const node *node, search_desc *desc) {
  const ir_search_sorted *op = node->instruction->op;
  const tensor *tensor = &node->tensors[op->boundaries].tensor,
               *value = &node->tensors[op->x].tensor;
  *desc = (search_desc){.boundaries = &node->tensors[op->boundaries],
                        .x = &node->tensors[op->x],
                        .sorter = operand_of(node, op->sorter),
                        .out = &node->tensors[op->out],
                        .n_x = tensor_numel(value),
                        .per_row = value->rank > 0 ? value->dims[value->rank - 1] : 1,
                        .n = tensor->dims[tensor->rank - 1],
                        .shared = tensor->rank == 1,
                        .right = op->right};
}
