#ifndef OPS_ARANGE_H
#define OPS_ARANGE_H
/* Tensors made of numbers alone. */
#include "ops/node.h"

/* out[i] = start + i * step over n elements: of a float dtype the doubles, else the integers. */
typedef struct arange_form {
  const bound_tensor *out; /* contiguous */
  int64_t n;
  double start, step;
  int64_t int_start, int_step;
} arange_form;
void describe_arange(const node *node, arange_form *desc);
void describe_full(const node *node, arange_form *desc); /* step 0 */

#endif
