#ifndef CLI_LAYOUT_H
#define CLI_LAYOUT_H
/* Graph layout: places boxes in layers, each source above its consumers, with few crossings and
 * short lines. Uses Graphviz if it is installed, otherwise a built-in layout. Independent of
 * programs. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct layout_box {
  double width, height; /* input */
  double x, y;          /* result: centre, and top */
  uint32_t layer;       /* result */
} layout_box;

typedef struct layout_point {
  double x, y;
} layout_point;

typedef struct layout_edge {
  uint32_t from, to;              /* input: from < to; edges are sorted by `to` */
  bool cut;                       /* result: too long to be drawn */
  uint32_t first_point, n_points; /* result, in `points`: the start, then three points for each
                                     Bezier curve; the end is the arrow's tip */
} layout_edge;

typedef struct layout {
  layout_box *boxes;  /* borrowed */
  layout_edge *edges; /* borrowed */
  uint32_t n_boxes, n_edges;
  layout_point *points; /* owned */
  uint32_t n_points;
  size_t cap_points;
  double width, height; /* size of the drawing */
} layout;

enum { LAYOUT_MARGIN = 24, LAYOUT_COLUMN_GAP = 28, LAYOUT_ROW_GAP = 40, LAYOUT_ARROW = 5 };

/* All but place_by_graphviz return false if out of memory. find_layers assigns the layers and cuts
 * edges; it does not need sizes yet. */
bool find_layers(layout *layout);
/* Computes everything else, from the sizes. */
bool place_boxes(layout *layout);
void free_layout(layout *layout);
/* Appends a point to the edge, whose points must be the last in the layout. */
bool add_point(layout *layout, layout_edge *edge, double x, double y);

/* ---- graphviz.c ---- */
/* Does the work of place_boxes with the program `dot`: CLAVE_DOT (a path, or "off"), otherwise
 * found on PATH. Returns false, and places nothing, if dot is not available, the graph is too
 * large, or dot's answer is late or invalid. *why is then the reason, or "" if the user need not
 * know it. */
bool place_by_graphviz(layout *layout, const char **why);

#endif
