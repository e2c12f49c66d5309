#ifndef OPS_CAT_H
#define OPS_CAT_H
/* Concatenation along one axis. */
#include "ops/node.h"

/* Iterates over the operands that have elements, and describes one copy for each:
 *  describe_cat(node, &desc);
 *  while (next_slice(&desc)) copy(desc.x, &desc.slice); */
typedef struct cat_desc {
  const bound_tensor *x; /* current operand */
  bound_tensor slice;    /* the slice of out, with x's dims, that x is copied to */
  const node *node;
  int axis;
  int64_t at;    /* start of the next slice along the axis, in elements */
  uint32_t next; /* index of the next operand */
} cat_desc;
void describe_cat(const node *node, cat_desc *desc);
bool next_slice(cat_desc *desc); /* false after the last one */

#endif
