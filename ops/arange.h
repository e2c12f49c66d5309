#ifndef OPS_ARANGE_H
#define OPS_ARANGE_H
/* Arange and Full: tensors filled from numbers alone. */
#include "ops/node.h"

/* out[i] = start + i * step for n elements. Only float dtypes use the doubles. */
typedef struct arange_desc {
  const bound_tensor *out; /* contiguous */
  int64_t n;
  double start, step;
  int64_t int_start, int_step;
} arange_desc;
void describe_arange(const node *node, arange_desc *desc);
void describe_full(const node *node, arange_desc *desc); /* step is 0 */

#endif
