#ifndef BACKEND_CPU_KERNELS_CONV_DEPTHWISE_KERNELS_H
#define BACKEND_CPU_KERNELS_CONV_DEPTHWISE_KERNELS_H
/* Rows of a plane convolved by itself with a kernel of 3x3 or 5x5 and a stride of 1 or 2, in
 * float: copied with the padding around them, then summed with all taps in one pass. */
#include "backend/cpu/kernels/conv/conv_tail.h"
#include "base/kernel.h"

enum {
  DEPTHWISE_ROW_SLACK = 16
}; /* floats behind a copied row, or half of one, that are written */

typedef struct depthwise_strip {
  const float *x, *x_end;      /* the plane: rows of in_columns */
  const uint16_t *bf16_x;      /* the same, kept as BF16, for depthwise_bf16.h; else NULL */
  int64_t in_rows, in_columns; /* in_columns >= 1 */
  int64_t top, left;           /* padding; left < DEPTHWISE_MOST_SIDE */
  const float *weight;         /* (side, side) */
  float bias;                  /* -0.0: none */
  int64_t row, rows, columns;  /* output rows [row, row + rows) of `columns` are made; not 0 */
  float *out;                  /* (rows, columns) */
  uint16_t *bf16_out;          /* in its place, as BF16; else NULL */
  conv_tail tail;              /* of out */
  float *copied;               /* depthwise_pitch() floats for each row that they see */
} depthwise_strip;

enum { DEPTHWISE_MOST_SIDE = 5 };

/* Each sum is made in the order of the taps. */
typedef void (*depthwise_kernel)(const depthwise_strip *strip);
depthwise_kernel depthwise_kernel_for(int64_t side, int64_t stride);

/* Floats of a copied row. Of stride 2 its even columns come first, its odd ones behind them. */
static inline int64_t depthwise_half(int64_t side, int64_t stride, int64_t columns) {
  const int64_t width = (columns - 1) * stride + side;
  return (width + stride - 1) / stride + DEPTHWISE_ROW_SLACK;
}
static inline int64_t depthwise_pitch(int64_t side, int64_t stride, int64_t columns) {
  return stride * depthwise_half(side, stride, columns);
}
/* Rows that `rows` rows of outputs see. */
static inline int64_t depthwise_reach(int64_t side, int64_t stride, int64_t rows) {
  return (rows - 1) * stride + side;
}

#endif
