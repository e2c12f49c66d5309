#ifndef OPS_CONV_H
#define OPS_CONV_H
/* Convolutions over one to three spatial dimensions, including integer and transposed ones. */
#include "base/conv_dim.h"
#include "base/tuning.h"
#include "ops/node.h"

/* Shapes: x (images, groups * channels, in...), out (images, groups * outputs, out...), bias
 * (groups * outputs), weight (groups * outputs, channels, kernel...) or, if transposed, (groups *
 * channels, outputs, kernel...). All are contiguous and, except in ConvInteger, of one dtype.
 * Missing spatial dimensions are prepended. */
typedef struct conv_desc {
  const bound_tensor *x, *weight, *bias, *out; /* bias: NULL if absent */
  dtype type;                                  /* x's dtype in the program */
  bool transposed;
  int padding_value; /* value of the padding of x; nonzero only for ConvInteger */
  int64_t images, groups, channels, outputs;
  conv_dim dims[SPATIAL_DIMS];
} conv_desc;
void describe_conv(const node *node, conv_desc *desc);
void describe_conv_transpose(const node *node, conv_desc *desc);
void describe_conv_integer(const node *node, conv_desc *desc);

/* True if Winograd's method can compute this convolution within the error bound of direct sums.
 * conv_winograd_tile returns the best side of an output tile: 2, 4, or 0 for direct sums. */
bool conv_accepts_winograd(const conv_desc *desc);
int conv_winograd_tile(const conv_desc *desc);

/* Adds the sizes and dtypes that decide which variant of a convolution is fastest. */
void add_conv_key(tuning_key *key, const conv_desc *desc);

#endif
