#ifndef OPS_NORM_H
#define OPS_NORM_H
/* Normalisations of dense operands. */
#include "ops/node.h"

/* x and out: `rows` rows of `row` elements. LayerNorm and RmsNorm have a weight and bias for each
 * element of a row. GroupNorm and BatchNorm have them for each channel of (batch, channels, plane):
 * a row is channels / groups planes with statistics of their own, or one plane with given ones. */
typedef struct norm_form {
  const bound_tensor *x, *weight, *bias, *mean, *var, *out; /* NULL: not given */
  dtype type;                                               /* of x and out in the program */
  int64_t rows, row;
  int64_t batch, channels, plane, groups; /* groups: of GroupNorm */
  double eps;
} norm_form;
void describe_layer_norm(const node *node, norm_form *desc);
void describe_rms_norm(const node *node, norm_form *desc);
void describe_group_norm(const node *node, norm_form *desc);
void describe_batch_norm(const node *node, norm_form *desc);

#endif
