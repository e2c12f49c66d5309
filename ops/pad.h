#ifndef OPS_PAD_H
#define OPS_PAD_H
/* Padding at both ends of every dimension. */
#include "ops/node.h"

typedef struct pad_form {
  ir_pad_mode mode;
  bound_tensor x, out;      /* of equal rank, at least 1; out: contiguous */
  int64_t before[MAX_RANK]; /* of each dimension; negative: cropped */
  uint64_t value;           /* the bits of an element of x's dtype */
} pad_form;
void describe_pad(const node *node, pad_form *desc);

#endif
