#ifndef OPS_CONV_H
#define OPS_CONV_H
/* Convolutions, of integers too, and their transposes over one to three spatial dimensions. */
#include "ops/node.h"

/* A spatial dimension. */
typedef struct conv_dim {
  int64_t in, out, kernel, stride, padding, dilation;
  /* Outputs with the same position modulo the stride of a transposed convolution, a phase, see
   * every tap_step-th tap. Of other convolutions both are 1. */
  int64_t phases; /* that have outputs */
  int64_t tap_step;
} conv_dim;

/* x: (images, groups * channels, in...), out: (images, groups * outputs, out...), bias: (groups *
 * outputs), weight: (groups * outputs, channels, kernel...), transposed: (groups * channels,
 * outputs, kernel...); all contiguous, of one dtype, but for ConvInteger's. Missing dimensions
 * stand in front. */
typedef struct conv_form {
  const bound_tensor *x, *weight, *bias, *out; /* bias: NULL if not given */
  bool transposed;
  int padding_value; /* around x; 0 but for ConvInteger */
  int64_t images, groups, channels, outputs;
  conv_dim dims[SPATIAL_DIMS];
} conv_form;
void describe_conv(const node *n, conv_form *f);
void describe_conv_transpose(const node *n, conv_form *f);
void describe_conv_integer(const node *n, conv_form *f);

/* One slice of depth, which convolutions of images have. */
static inline bool conv_dim_is_absent(const conv_dim *d) {
  return d->in == 1 && d->out == 1 && d->kernel == 1 && d->padding == 0;
}

/* Where x is laid out by phases, element i of it with its padding in phase i % stride at i /
 * stride: how many phases taps meet, and how far outputs see into one. Not transposed. */
static inline int64_t conv_dim_phases(const conv_dim *d) {
  const int64_t spanned = (d->kernel - 1) * d->dilation + 1;
  return spanned < d->stride ? spanned : d->stride;
}
static inline int64_t conv_dim_phase_size(const conv_dim *d) {
  const int64_t seen = (d->out - 1) * d->stride + (d->kernel - 1) * d->dilation + 1;
  return (seen + d->stride - 1) / d->stride;
}

/* Whether Winograd's method is for it: within the bound that direct sums have; and the side of a
 * tile of outputs that suits it, 2 or 4; 0: direct sums do. */
bool conv_takes_winograd(const conv_form *f);
int conv_winograd_tile(const conv_form *f);

#endif
