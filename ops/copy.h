#ifndef OPS_COPY_H
#define OPS_COPY_H
/* Elements moved as they are from one layout to another. */
#include "ops/node.h"

typedef struct copy_form {
  bound_tensor x, out; /* of equal dims, merged where both can be walked as one; out: any strides */
} copy_form;
void describe_copy(const node *node, copy_form *desc); /* out: contiguous */
/* Lists of integers of the smaller one's size, whatever the dtypes are. */
void describe_bitcast(const node *node, copy_form *desc);
/* Of tensor to a part of a tensor that has tensor's dims. */
copy_form copy_between(const bound_tensor *tensor, const bound_tensor *out);

#endif
