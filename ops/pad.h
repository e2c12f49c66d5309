#ifndef OPS_PAD_H
#define OPS_PAD_H
/* Padding or cropping at both ends of every dimension. */
#include "ops/node.h"

typedef struct pad_desc {
  ir_pad_mode mode;
  bound_tensor x, out;      /* equal ranks of at least 1; out: contiguous */
  int64_t before[MAX_RANK]; /* per dimension; negative values crop */
  uint64_t value;           /* bits of the padding element, in x's dtype */
} pad_desc;
void describe_pad(const node *node, pad_desc *desc);

#endif
