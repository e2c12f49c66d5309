#ifndef OPS_COPY_H
#define OPS_COPY_H
/* Copies of elements between two layouts, without conversion. */
#include "ops/node.h"

typedef struct copy_desc {
  bound_tensor x, out; /* equal dims, merged where both allow it; out: any strides */
} copy_desc;
void describe_copy(const node *node, copy_desc *desc); /* out: contiguous */
/* Describes both operands as integers of the smaller dtype's size, whatever their dtypes. */
void describe_bitcast(const node *node, copy_desc *desc);
/* Describes a copy of tensor to out, which has the same dims and may be a slice of a larger one. */
copy_desc copy_between(const bound_tensor *tensor, const bound_tensor *out);

#endif
