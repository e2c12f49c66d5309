#ifndef OPS_CAT_H
#define OPS_CAT_H
/* Tensors side by side. */
#include "ops/node.h"

/* Copies, one for each operand that has elements:
 *   describe_cat(n, &f);
 *   while (next_part(&f)) copy(f.x, &f.part); */
typedef struct cat_form {
  const bound_tensor *x; /* the operand */
  bound_tensor part;     /* of x's dims: where it goes in out */
  const node *node;
  int axis;
  int64_t at;    /* how much of the axis is filled */
  uint32_t next; /* operand */
} cat_form;
void describe_cat(const node *node, cat_form *desc);
bool next_part(cat_form *desc); /* false: there are no more */

#endif
