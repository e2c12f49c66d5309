#ifndef OPS_EMBEDDING_BAG_H
#define OPS_EMBEDDING_BAG_H
/* Reductions over bags, which are lists of table rows. */
#include "ops/node.h"

typedef struct embedding_bag_desc {
  ir_embedding_bag_kind kind;
  const bound_tensor *weight;  /* (rows, dim) */
  const bound_tensor *indices; /* (n) */
  const bound_tensor *offsets; /* (n_offsets): the start of each bag, perhaps also the end of the
                                  last */
  const bound_tensor *factors; /* (n), of weight's dtype; NULL if absent */
  const bound_tensor *out;     /* (bags, dim), contiguous */
  int64_t bags, dim, rows, n, n_offsets;
  bool skips; /* true if indices equal to `skipped` are ignored */
  int64_t skipped;
} embedding_bag_desc;
void describe_embedding_bag(const node *node, embedding_bag_desc *desc);

#endif
