#ifndef OPS_GRID_SAMPLE_H
#define OPS_GRID_SAMPLE_H
/* Planes and volumes read at positions between their elements. */
#include "ops/node.h"

/* x: (batch, channels, in...), grid: (batch, points, n_dims), the last dimension's coordinate
 * first, out: (batch, channels, points); all contiguous, of one dtype. */
typedef struct grid_sample_form {
  const bound_tensor *x, *grid, *out;
  ir_grid_sample_mode mode;
  ir_grid_sample_padding padding;
  bool align_corners;
  int n_dims; /* 2 or 3 */
  int64_t batch, channels, points;
  int64_t in[SPATIAL_DIMS]; /* the last dimension's size first; missing: 1 */
} grid_sample_form;
void describe_grid_sample(const node *node, grid_sample_form *desc);

#endif
