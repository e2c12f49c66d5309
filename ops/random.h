#ifndef OPS_RANDOM_H
#define OPS_RANDOM_H
/* Random tensors; docs/reference/random.md describes the generator. */
#include "ops/node.h"

typedef struct random_desc {
  ir_random_kind kind;
  const bound_tensor *out; /* contiguous */
  int64_t n;               /* elements of out */
  int per_block;           /* elements made from one Philox block: 2 or 4 */
  uint32_t stream;
  int64_t low; /* integers are drawn from [low, low + range) */
  uint64_t range;
} random_desc;
void describe_random(const node *node, random_desc *desc);

#endif
