#ifndef CLI_LAYOUT_H
#define CLI_LAYOUT_H
/* Places boxes in layers, sources above what they feed, with few crossings and short lines: by
 * graphviz where it is installed, else by a layout of our own. Knows nothing of programs. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct layout_box {
  double width, height; /* given */
  double x, y;          /* found: the centre, the top */
  uint32_t layer;       /* found */
} layout_box;

typedef struct layout_point {
  double x, y;
} layout_point;

typedef struct layout_edge {
  uint32_t from, to;              /* given: from < to; edges in ascending order of `to` */
  bool cut;                       /* found: too long to be drawn */
  uint32_t first_point, n_points; /* found, in `points`: where it begins, then three for each
                                     Bezier curve; it ends where its arrow does */
} layout_edge;

typedef struct layout {
  layout_box *boxes;  /* borrowed */
  layout_edge *edges; /* borrowed */
  uint32_t n_boxes, n_edges;
  layout_point *points; /* owned */
  uint32_t n_points;
  size_t cap_points;
  double width, height; /* of the drawing */
} layout;

enum { LAYOUT_MARGIN = 24, LAYOUT_COLUMN_GAP = 28, LAYOUT_ROW_GAP = 40, LAYOUT_ARROW = 5 };

/* All but place_by_graphviz return false when out of memory. The layers, and which edges are cut:
 * sizes are not needed yet. */
bool find_layers(layout *layout);
/* Then, with the sizes, everything else. */
bool place_boxes(layout *layout);
void free_layout(layout *layout);
/* A further point of edge, whose points come last. */
bool add_point(layout *layout, layout_edge *edge, double x, double y);

/* ---- graphviz.c ---- */
/* place_boxes by the program `dot`: CLAVE_DOT, a path or "off", else by PATH. False: there is none,
 * the graph is too large for it, or its answer is late or wrong; *why says which, "" where that is
 * nobody's concern. Nothing is placed then. */
bool place_by_graphviz(layout *layout, const char **why);

#endif
