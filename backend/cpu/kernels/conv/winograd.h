#ifndef BACKEND_CPU_KERNELS_CONV_WINOGRAD_H
#define BACKEND_CPU_KERNELS_CONV_WINOGRAD_H
/* Convolution of contiguous images with a 3x3 kernel and stride 1 by Winograd's method, in float.
 * Which bits a result has depends on `tile` and the processor alone. Errors are relative to the
 * largest inputs of a tile, not of an output (docs/performance.md); a tile in which an output is no
 * finite number is computed directly. */
#include "backend/cpu/kernels/conv/conv_tail.h"
#include "backend/cpu/kernels/elementwise/step_rows.h"
#include "base/encoding.h"
#include "base/kernel.h"

enum { WINOGRAD_SIDE = 3, WINOGRAD_MOST = 4 };

typedef struct winograd_args {
  const void *x;          /* (images, groups * channels, in_rows, in_columns) */
  const void *weight;     /* (groups * outputs, channels, 3, 3), of any type up to F32, or codes */
  const void *packed;     /* the weight by kernel_winograd_pack */
  const void *bias;       /* (groups * outputs), may be absent */
  void *out;              /* (images, groups * outputs, out_rows, out_columns) */
  dtype x_type, out_type; /* F32, or BF16 where F32 is kept so (bf16.h) */
  dtype weight_type;
  encoding encoding; /* of the weight: unless plain, its dims[0] rows */
  int64_t images, groups, channels, outputs;
  int64_t in_rows, in_columns, out_rows, out_columns;
  int64_t top, left; /* padding */
  int32_t tile;      /* rows and columns of outputs that are made at once: 2 or 4 */
  conv_tail tail;
  short_elementwise_args steps; /* what follows that, in place, of one input */
} winograd_args;

KERNEL(winograd, winograd_args);
/* Writes the transformed weight, which is read alone, to its scratch memory. */
KERNEL(winograd_pack, winograd_args);

#endif
