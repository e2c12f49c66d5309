#ifndef BACKEND_CPU_KERNELS_CONV_WINOGRAD_H
#define BACKEND_CPU_KERNELS_CONV_WINOGRAD_H
/* Convolution of contiguous images with a 3x3 kernel and stride 1 by Winograd's method, in float.
 * The bits of a result depend only on `tile` and the processor. Errors are relative to the largest
 * inputs of a tile, not to those of an output (docs/performance.md). A tile with an output that is
 * not finite is computed directly. */
#include "backend/cpu/kernels/conv/conv_epilogue.h"
#include "backend/cpu/kernels/elementwise/step_rows.h"
#include "base/encoding.h"
#include "base/kernel.h"

enum { WINOGRAD_SIDE = 3, WINOGRAD_MAX = 4 };

typedef struct winograd_args {
  const void *x;          /* (images, groups * channels, in_rows, in_columns) */
  const void *weight;     /* (groups * outputs, channels, 3, 3), of any type up to F32, or codes */
  const void *packed;     /* the weight packed by kernel_winograd_pack */
  const void *bias;       /* (groups * outputs), may be NULL */
  void *out;              /* (images, groups * outputs, out_rows, out_columns) */
  dtype x_type, out_type; /* F32, or BF16 if F32 is kept as BF16 (bf16.h) */
  dtype weight_type;
  encoding encoding; /* encoding of the weight; unless plain, one row per index of axis 0 */
  int64_t images, groups, channels, outputs;
  int64_t in_rows, in_columns, out_rows, out_columns;
  int64_t top, left; /* padding */
  int32_t tile;      /* rows and columns of an output tile: 2 or 4 */
  conv_epilogue epilogue;
  short_elementwise_args steps; /* applied in place after the epilogue; one input */
} winograd_args;

KERNEL(winograd, winograd_args);
/* Packs the transformed weight into its scratch memory; reads nothing else. */
KERNEL(winograd_pack, winograd_args);

#endif
