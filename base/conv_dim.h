#ifndef BASE_CONV_DIM_H
#define BASE_CONV_DIM_H
/* A spatial dimension of a convolution, as ops describe it and kernels read it. */
#include <stdbool.h>
#include <stdint.h>

typedef struct conv_dim {
  int64_t in, out, kernel, stride, padding, dilation;
  /* Outputs with the same position modulo the stride of a transposed convolution, a phase, see
   * every tap_step-th tap. Of other convolutions both are 1. */
  int64_t phases; /* that have outputs */
  int64_t tap_step;
} conv_dim;

/* One slice of depth, which convolutions of images have. */
static inline bool conv_dim_is_absent(const conv_dim *dim) {
  return dim->in == 1 && dim->out == 1 && dim->kernel == 1 && dim->padding == 0;
}

/* From the first input that an output sees to its last. */
static inline int64_t conv_dim_span(const conv_dim *dim) {
  return (dim->kernel - 1) * dim->dilation + 1;
}

/* And of n neighbouring outputs, from the first one's first input to the last one's last. */
static inline int64_t conv_dim_reach(const conv_dim *dim, int64_t n) {
  return (n - 1) * dim->stride + conv_dim_span(dim);
}

/* Where x is laid out by phases, element i of it with its padding in phase i % stride at i /
 * stride: how many phases taps meet, and how far outputs see into one. Not transposed. */
static inline int64_t conv_dim_phases(const conv_dim *dim) {
  const int64_t spanned = conv_dim_span(dim);
  return spanned < dim->stride ? spanned : dim->stride;
}
static inline int64_t conv_dim_phase_size(const conv_dim *dim) {
  return (conv_dim_reach(dim, dim->out) + dim->stride - 1) / dim->stride;
}

#endif
