#ifndef OPS_ROPE_H
#define OPS_ROPE_H
/* Rotary position embedding. */
#include "ops/node.h"

/* x is (*, L, n_heads, 2 * n_pairs). `rows` is the layout of x without the last dimension: n_rows
 * heads. Row i % n_angles of cos and sin rotates the heads at position i of (*, L). */
typedef struct rope_desc {
  const bound_tensor *x, *cos, *sin, *out;
  tensor rows;
  int64_t n_rows, n_angles, n_heads, n_pairs;
  bool interleaved;
} rope_desc;
void describe_rope(const node *node, rope_desc *desc);

#endif
