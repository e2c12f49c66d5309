#ifndef OPS_SSM_SCAN_H
#define OPS_SSM_SCAN_H
/* The recurrence of state space models. */
#include "ops/node.h"

/* x, out: (n_batch, length, n_heads, head_dim), log_decay: (n_batch, length, n_heads), b, c:
 * (n_batch, length, n_heads / share, n_state), rate: (n_heads, n_state). state: (n_batch, n_heads,
 * head_dim, n_state), the initial state, which the final state replaces. */
typedef struct ssm_scan_desc {
  const bound_tensor *x, *log_decay, *b, *c, *rate, *state, *out; /* rate: NULL if all are one */
  int64_t n_batch, length, n_heads, share, head_dim, n_state;
} ssm_scan_desc;
void describe_ssm_scan(const node *node, ssm_scan_desc *desc);

#endif
