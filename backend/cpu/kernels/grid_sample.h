#ifndef BACKEND_CPU_KERNELS_GRID_SAMPLE_H
#define BACKEND_CPU_KERNELS_GRID_SAMPLE_H
/* Samples planes and volumes at positions between their elements. */
#include "base/kernel.h"

typedef enum kgrid_mode { KGRID_BILINEAR, KGRID_NEAREST, KGRID_BICUBIC } kgrid_mode;
typedef enum kgrid_padding { KGRID_ZEROS, KGRID_BORDER, KGRID_REFLECTION } kgrid_padding;

typedef struct grid_sample_args {
  kgrid_mode mode;
  kgrid_padding padding;
  bool align_corners;
  dtype type;
  int n_dims;       /* 2 or 3 */
  const void *x;    /* (batch, channels, in...) */
  const void *grid; /* (batch, points, n_dims): the last dimension's coordinate first */
  void *out;        /* (batch, channels, points) */
  int64_t batch, channels, points;
  int64_t in[3]; /* size of the last dimension first; missing: 1 */
} grid_sample_args;
KERNEL(grid_sample, grid_sample_args);

#endif
