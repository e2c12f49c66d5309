#ifndef OPS_CONV_H
#define OPS_CONV_H
/* Convolutions, of integers too, and their transposes over one to three spatial dimensions. */
#include "base/conv_dim.h"
#include "base/tuning.h"
#include "ops/node.h"

/* x: (images, groups * channels, in...), out: (images, groups * outputs, out...), bias: (groups *
 * outputs), weight: (groups * outputs, channels, kernel...), transposed: (groups * channels,
 * outputs, kernel...); all contiguous, of one dtype, but for ConvInteger's. Missing dimensions
 * stand in front. */
typedef struct conv_form {
  const bound_tensor *x, *weight, *bias, *out; /* bias: NULL if not given */
  dtype type;                                  /* of x in the program */
  bool transposed;
  int padding_value; /* around x; 0 but for ConvInteger */
  int64_t images, groups, channels, outputs;
  conv_dim dims[SPATIAL_DIMS];
} conv_form;
void describe_conv(const node *node, conv_form *desc);
void describe_conv_transpose(const node *node, conv_form *desc);
void describe_conv_integer(const node *node, conv_form *desc);

/* Whether Winograd's method is for it: within the bound that direct sums have; and the side of a
 * tile of outputs that suits it, 2 or 4; 0: direct sums do. */
bool conv_takes_winograd(const conv_form *desc);
int conv_winograd_tile(const conv_form *desc);

/* Adds the sizes and dtypes that decide how fast the variants of a convolution are. */
void add_conv_key(tuning_key *key, const conv_form *desc);

#endif
