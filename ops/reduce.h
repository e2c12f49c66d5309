#ifndef OPS_REDUCE_H
#define OPS_REDUCE_H
/* Reductions. */
#include "ops/node.h"

/* out, contiguous, has an element for each place of `kept`: that of x's elements in `over`. Both
 * are dimensions of x in their order, merged where they can be walked as one. */
typedef struct reduce_form {
  const bound_tensor *x, *out;
  tensor kept, over;
  int64_t n_kept, n_over; /* their elements */
  double divisor; /* Reduce: of means n_over, of variances n_over - correction, at least 0 */
} reduce_form;
void describe_reduce(const node *node, reduce_form *desc);
void describe_arg_reduce(const node *node, reduce_form *desc);
/* Whether it is one of Reduce's that may read x as BF16: means of neighbours. */
bool reduce_may_narrow(const node *node, const reduce_form *desc);

#endif
