#ifndef OPS_FOLD_H
#define OPS_FOLD_H
/* Sliding blocks of planes: Im2col copies them out, Col2im adds them up. */
#include "ops/node.h"

/* The planes: (planes, size...); the blocks: (planes * kernel..., positions...). Im2col reads the
 * planes, Col2im writes them; both contiguous. */
typedef struct fold_form {
  const bound_tensor *x, *out;
  int64_t planes, size[2], positions[2], kernel[2], stride[2], padding[2], dilation[2];
} fold_form;
void describe_im2col(const node *node, fold_form *desc);
void describe_col2im(const node *node, fold_form *desc);

#endif
