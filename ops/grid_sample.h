#ifndef OPS_GRID_SAMPLE_H
#define OPS_GRID_SAMPLE_H
/* Planes and volumes sampled at fractional positions. */
#include "ops/node.h"

/* x: (batch, channels, in...), grid: (batch, points, n_dims), where the coordinate along the last
 * spatial dimension comes first, out: (batch, channels, points). All are contiguous and of one
 * dtype. */
typedef struct grid_sample_desc {
  const bound_tensor *x, *grid, *out;
  ir_grid_sample_mode mode;
  ir_grid_sample_padding padding;
  bool align_corners;
  int n_dims; /* 2 or 3 */
  int64_t batch, channels, points;
  int64_t in[SPATIAL_DIMS]; /* last dimension first; 1 if missing */
} grid_sample_desc;
void describe_grid_sample(const node *node, grid_sample_desc *desc);

#endif
