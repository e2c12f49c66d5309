#ifndef OPS_FOLD_H
#define OPS_FOLD_H
/* Sliding windows over planes. Im2col copies the block under each position of the window; Col2im
 * adds the blocks to the planes again. */
#include "ops/node.h"

/* Planes are (planes, size...), blocks (planes * kernel..., positions...). Im2col reads planes,
 * Col2im writes them. Both operands are contiguous. */
typedef struct fold_desc {
  const bound_tensor *x, *out;
  int64_t planes, size[2], positions[2], kernel[2], stride[2], padding[2], dilation[2];
} fold_desc;
void describe_im2col(const node *node, fold_desc *desc);
void describe_col2im(const node *node, fold_desc *desc);

#endif
