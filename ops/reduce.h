#ifndef OPS_REDUCE_H
#define OPS_REDUCE_H
/* Reductions over any set of axes. */
#include "ops/node.h"

/* out is contiguous. It has one element per position of `kept`, the result of reducing x over all
 * positions of `over`. `kept` and `over` are dimensions of x in their order, collapsed. */
typedef struct reduce_desc {
  const bound_tensor *x, *out;
  tensor kept, over;
  int64_t n_kept, n_over; /* number of positions in kept and over */
  double divisor;         /* Reduce: n_over for means; max(n_over - correction, 0) for variances */
} reduce_desc;
void describe_reduce(const node *node, reduce_desc *desc);
void describe_arg_reduce(const node *node, reduce_desc *desc);
/* True if the node is a mean over adjacent elements, which may read x as BF16. */
bool reduce_may_be_bf16(const node *node, const reduce_desc *desc);

#endif
