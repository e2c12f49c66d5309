#ifndef OPS_NORM_H
#define OPS_NORM_H
/* Normalizations of dense operands. */
#include "ops/node.h"

/* x and out are `rows` rows of `row` elements. LayerNorm and RmsNorm have a weight and bias per
 * element of a row. GroupNorm and BatchNorm have a weight and bias per channel of (batch, channels,
 * plane). A row of GroupNorm is channels / groups planes; a row of BatchNorm is one plane, whose
 * mean and var are operands. */
typedef struct norm_desc {
  const bound_tensor *x, *weight, *bias, *mean, *var, *out; /* NULL if absent */
  dtype type;                                               /* dtype of x and out in the program */
  int64_t rows, row;
  int64_t batch, channels, plane, groups; /* groups: GroupNorm only */
  double eps;
} norm_desc;
void describe_layer_norm(const node *node, norm_desc *desc);
void describe_rms_norm(const node *node, norm_desc *desc);
void describe_group_norm(const node *node, norm_desc *desc);
void describe_batch_norm(const node *node, norm_desc *desc);

#endif
