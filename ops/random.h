#ifndef OPS_RANDOM_H
#define OPS_RANDOM_H
/* Random tensors: docs/random.md. */
#include "ops/node.h"

typedef struct random_form {
  ir_random_kind kind;
  const bound_tensor *out; /* contiguous */
  int64_t n;               /* its elements */
  int per_block;           /* elements that one block of Philox gives: 2 or 4 */
  uint32_t stream;
  int64_t low; /* of integers: in [low, low + range) */
  uint64_t range;
} random_form;
void describe_random(const node *node, random_form *desc);

#endif
