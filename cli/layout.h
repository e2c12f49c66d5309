#ifndef CLI_LAYOUT_H
#define CLI_LAYOUT_H
/* Places boxes in layers, sources above what they feed, with few crossings and short lines. Knows
 * nothing of programs. */
#include <stdbool.h>
#include <stdint.h>

typedef struct layout_box {
  double width, height; /* given */
  double x, y;          /* found: the centre, the top */
  uint32_t layer;       /* found */
} layout_box;

/* A line passes a layer that it skips at x, straight from `top` to `bottom`. */
typedef struct layout_point {
  double x, top, bottom;
} layout_point;

typedef struct layout_edge {
  uint32_t from, to;              /* given: from < to; edges in ascending order of `to` */
  bool cut;                       /* found: too long to be drawn */
  uint32_t first_point, n_points; /* found: where it passes, in `points` */
} layout_edge;

typedef struct layout {
  layout_box *boxes;  /* borrowed */
  layout_edge *edges; /* borrowed */
  uint32_t n_boxes, n_edges;
  layout_point *points; /* owned */
  uint32_t n_points;
  double width, height; /* of the drawing */
} layout;

/* Both return false when out of memory. The layers, and which edges are cut: sizes are not needed
 * yet. */
bool find_layers(layout *l);
/* Then, with the sizes, everything else. */
bool place_boxes(layout *l);
void free_layout(layout *l);

#endif
