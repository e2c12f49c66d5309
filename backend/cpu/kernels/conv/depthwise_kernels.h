#ifndef BACKEND_CPU_KERNELS_CONV_DEPTHWISE_KERNELS_H
#define BACKEND_CPU_KERNELS_CONV_DEPTHWISE_KERNELS_H
/* Depthwise convolution of rows of a plane, with 3x3 or 5x5 taps and a stride of 1 or 2, in float.
 * Rows may have a stride of 2 where columns have 1. Except with AVX-512, rows are copied with
 * padding, then summed with all taps in one pass. */
#include "backend/cpu/kernels/conv/conv_epilogue.h"
#include "base/kernel.h"

enum { DEPTHWISE_ROW_SLACK = 16 }; /* floats that may be written after a copied row, or half row */

typedef struct depthwise_strip {
  const float *x, *x_end; /* the plane: rows of in_columns */
  const uint16_t *bf16_x; /* the same plane kept as BF16, for depthwise_bf16.h; otherwise NULL */
  int64_t in_rows, in_columns; /* in_columns >= 1 */
  int64_t top, left;           /* padding; left < DEPTHWISE_MAX_SIDE */
  const float *weight;         /* (side, side) */
  float bias;                  /* -0.0 if none exists */
  int64_t row, rows, columns;  /* computes output rows [row, row + rows) of `columns`; sizes are >
                                  0 */
  float *out;                  /* (rows, columns) */
  uint16_t *bf16_out;          /* output as BF16 instead of out; otherwise NULL */
  conv_epilogue epilogue;      /* `added` relative to out; *slope is that of the plane */
  float *copied;               /* depthwise_pitch() floats for each input row of the strip */
} depthwise_strip;

enum { DEPTHWISE_MAX_SIDE = 5 };

/* Computes a strip. Each sum adds its products in the order of the taps. */
typedef void (*depthwise_kernel)(const depthwise_strip *strip);
depthwise_kernel depthwise_kernel_for(int64_t side, int64_t row_stride, int64_t stride);

/* depthwise_half returns the floats of half a copied row, depthwise_pitch of all of it. With stride
 * 2 the even columns come first, then the odd ones; with stride 1 a row is one half. */
static inline int64_t depthwise_half(int64_t side, int64_t stride, int64_t columns) {
  const int64_t width = (columns - 1) * stride + side;
  return (width + stride - 1) / stride + DEPTHWISE_ROW_SLACK;
}
static inline int64_t depthwise_pitch(int64_t side, int64_t stride, int64_t columns) {
  return stride * depthwise_half(side, stride, columns);
}
/* Returns the number of input rows that `rows` output rows read. */
static inline int64_t depthwise_reach(int64_t side, int64_t stride, int64_t rows) {
  return (rows - 1) * stride + side;
}

#endif
