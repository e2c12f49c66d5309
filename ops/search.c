/* SearchSorted. */
#include "ops/search.h"

#include "ops/rule_checks.h"

/* One row of boundaries for all, or x's leading dimensions. */
static clave_status check_rows(const tensor *b, const tensor *x) {
  char have[SHAPE_TEXT], want[SHAPE_TEXT];
  bool fits = b->rank == 1 || b->rank == x->rank;
  for (int i = 0; fits && b->rank > 1 && i + 1 < x->rank; i++)
    fits = dim_matches(b->dims[i], x->dims[i]);
  if (fits) return NULL;
  return INVALID("boundaries: expected one dimension or all but the last of %s, got shape %s",
                 tensor_shape_text(x, want, SHAPE_TEXT), tensor_shape_text(b, have, SHAPE_TEXT));
}

clave_status rule_search_sorted(const rule_context *c, const void *op) {
  const ir_search_sorted *o = op;
  const tensor *b = rule_tensor(c, o->boundaries), *x = rule_tensor(c, o->x);
  TRY(check_rank_at_least(c, o->boundaries, "boundaries", 1));
  TRY(check_not_bool(c, o->x, "x"));
  TRY(rule_expect(c, o->boundaries, "boundaries", x->type, b->rank, b->dims));
  TRY(check_rows(b, x));
  TRY(check_optional(c, o->sorter, "sorter", DTYPE_I64, b->rank, b->dims));
  TRY(check_index_dtype(c, o->out, "out"));
  return rule_expect(c, o->out, "out", rule_tensor(c, o->out)->type, x->rank, x->dims);
}

void describe_search_sorted(const node *n, search_form *f) {
  const ir_search_sorted *op = n->instruction->op;
  const tensor *b = &n->tensors[op->boundaries].t, *x = &n->tensors[op->x].t;
  *f = (search_form){.boundaries = &n->tensors[op->boundaries],
                     .x = &n->tensors[op->x],
                     .sorter = operand_of(n, op->sorter),
                     .out = &n->tensors[op->out],
                     .n_x = tensor_numel(x),
                     .per_row = x->rank > 0 ? x->dims[x->rank - 1] : 1,
                     .n = b->dims[b->rank - 1],
                     .shared = b->rank == 1,
                     .right = op->right};
}
