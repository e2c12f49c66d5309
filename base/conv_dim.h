#ifndef BASE_CONV_DIM_H
#define BASE_CONV_DIM_H
/* A spatial dimension of a convolution, as in op descriptions and kernels. */
#include <stdbool.h>
#include <stdint.h>

typedef struct conv_dim {
  int64_t in, out, kernel, stride, padding, dilation;
  /* For transposed convolutions; else both are 1. Outputs with the same position modulo the stride
   * form a phase. The outputs of a phase read every tap_step-th tap. */
  int64_t phases; /* number of phases that have outputs */
  int64_t tap_step;
} conv_dim;

/* True if the convolution lacks this dimension, as an image convolution lacks depth. */
static inline bool conv_dim_is_absent(const conv_dim *dim) {
  return dim->in == 1 && dim->out == 1 && dim->kernel == 1 && dim->padding == 0;
}

/* Returns the number of inputs from the first to the last that one output reads, both included. */
static inline int64_t conv_dim_span(const conv_dim *dim) {
  return (dim->kernel - 1) * dim->dilation + 1;
}

/* Returns the number of inputs from the first to the last that n neighbouring outputs read. */
static inline int64_t conv_dim_reach(const conv_dim *dim, int64_t n) {
  return (n - 1) * dim->stride + conv_dim_span(dim);
}

/* For a padded input that is stored by phases, where element i is in phase i % stride at position i
 * / stride. Return the number of phases that taps read, and the number of elements of a phase that
 * outputs read. Not for transposed convolutions. */
static inline int64_t conv_dim_phases(const conv_dim *dim) {
  const int64_t spanned = conv_dim_span(dim);
  return spanned < dim->stride ? spanned : dim->stride;
}
static inline int64_t conv_dim_phase_size(const conv_dim *dim) {
  return (conv_dim_reach(dim, dim->out) + dim->stride - 1) / dim->stride;
}

#endif
