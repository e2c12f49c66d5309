#ifndef OPS_ROPE_H
#define OPS_ROPE_H
/* Rotary position embedding. */
#include "ops/node.h"

/* `rows`, x's dimensions without the last: (*, length, n_heads) of n_rows heads with n_pairs pairs
 * each. A head at place l of the length is turned by row l of cos and sin. */
typedef struct rope_form {
  const bound_tensor *x, *cos, *sin, *out;
  tensor rows;
  int64_t n_rows, length, n_heads, n_pairs;
  bool interleaved;
} rope_form;
void describe_rope(const node *n, rope_form *f);

#endif
