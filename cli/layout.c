/* Layered drawing in four steps: layers by longest path; a dummy item where a line crosses a layer;
 * orders by the mean position of neighbours; coordinates by least squares, pooling neighbours that
 * would overlap. */
#include "cli/layout.h"

#include <stdlib.h>

#include "base/memory.h"

enum { LONGEST_EDGE = 12, ORDER_SWEEPS = 12, PLACE_SWEEPS = 16 };
static const double column_gap = LAYOUT_COLUMN_GAP, row_gap = LAYOUT_ROW_GAP,
                    margin = LAYOUT_MARGIN, dummy_width = 6, dummy_weight = 4;

/* A box, or a point where a line crosses a layer. */
typedef struct item {
  double x, width, sum; /* the centre; sum and count of the neighbours' positions */
  uint32_t layer, count;
} item;

typedef struct segment {
  uint32_t from, to; /* items in adjacent layers */
} segment;

typedef struct ranked {
  double key;
  uint32_t item;
} ranked;

/* A run of items that touch, with their common shift from the packed positions. */
typedef struct pool {
  double sum, weight;
  uint32_t count;
} pool;

/* A line crosses a layer that it skips, at x, straight from `top` to `bottom`. */
typedef struct passage {
  double x, top, bottom;
} passage;

typedef struct passages {
  uint32_t first, n;
} passages;

typedef struct work {
  layout *layout;
  passage *passed;  /* (n_items - n_boxes) */
  passages *passes; /* (n_edges); the range of each edge in `passed` */
  item *items;
  uint32_t n_items, n_layers, n_segments;
  segment *segments;
  ranked *order;           /* items sorted by layer */
  uint32_t *layer_start;   /* (n_layers + 1); index into order */
  uint32_t *segment_start; /* (n_layers + 1); index into segments, by the layer of `from` */
  pool *pools;
} work;

static void *layout_allocate(size_t count, size_t size) { return calloc(count ? count : 1, size); }

/* ---------------------------------------------------------------- layers */

bool find_layers(layout *layout) {
  uint32_t *nearest = layout_allocate(layout->n_boxes, sizeof *nearest);
  bool *has_source = layout_allocate(layout->n_boxes, sizeof *has_source);
  for (uint32_t i = 0; nearest && has_source && i < layout->n_edges; i++) {
    const layout_edge *edge = &layout->edges[i];
    uint32_t below = layout->boxes[edge->from].layer + 1;
    if (layout->boxes[edge->to].layer < below) layout->boxes[edge->to].layer = below;
    has_source[edge->to] = true;
  }
  for (uint32_t i = 0; nearest && has_source && i < layout->n_edges; i++) {
    const layout_edge *edge = &layout->edges[i];
    uint32_t layer = layout->boxes[edge->to].layer;
    if (!nearest[edge->from] || nearest[edge->from] > layer) nearest[edge->from] = layer;
  }
  for (uint32_t i = 0; nearest && has_source && i < layout->n_boxes; i++) {
    if (!has_source[i] && nearest[i])
      layout->boxes[i].layer = nearest[i] - 1; /* moves sources down next to their consumers */
  }
  for (uint32_t i = 0; i < layout->n_edges; i++) {
    layout_edge *edge = &layout->edges[i];
    edge->cut = layout->boxes[edge->to].layer - layout->boxes[edge->from].layer > LONGEST_EDGE;
  }
  bool good = nearest && has_source;
  free(nearest);
  free(has_source);
  return good;
}

/* Counts items: one dummy per crossed layer. */
static void layout_count_items(work *work) {
  layout *layout = work->layout;
  work->n_items = layout->n_boxes;
  for (uint32_t i = 0; i < layout->n_boxes; i++) {
    if (work->n_layers <= layout->boxes[i].layer) work->n_layers = layout->boxes[i].layer + 1;
  }
  for (uint32_t i = 0; i < layout->n_edges; i++) {
    const layout_edge *edge = &layout->edges[i];
    uint32_t layers = layout->boxes[edge->to].layer - layout->boxes[edge->from].layer;
    if (edge->cut) continue;
    work->passes[i] = (passages){work->n_items - layout->n_boxes, layers - 1};
    work->n_items += layers - 1;
    work->n_segments += layers;
  }
}

static void sort_by_layer(work *work, const segment *unsorted) {
  uint32_t *next = work->segment_start;
  for (uint32_t i = 0; i < work->n_segments; i++) next[work->items[unsorted[i].from].layer + 1]++;
  for (uint32_t i = 0; i < work->n_layers; i++) next[i + 1] += next[i];
  for (uint32_t i = work->n_segments; i-- > 0;) {
    work->segments[--next[work->items[unsorted[i].from].layer + 1]] = unsorted[i];
  }
  /* next[k + 1] is now the start of layer k; moves it to next[k]. */
  for (uint32_t i = 0; i < work->n_layers; i++) next[i] = next[i + 1];
  next[work->n_layers] = work->n_segments;
}

static bool make_items(work *work) {
  layout *layout = work->layout;
  segment *unsorted = layout_allocate(work->n_segments, sizeof *unsorted);
  uint32_t n = 0;
  if (!unsorted) return false;
  for (uint32_t i = 0; i < layout->n_boxes; i++) {
    work->items[i] = (item){.width = layout->boxes[i].width, .layer = layout->boxes[i].layer};
  }
  for (uint32_t i = 0; i < layout->n_edges; i++) {
    const layout_edge *edge = &layout->edges[i];
    uint32_t previous = edge->from, first = layout->n_boxes + work->passes[i].first;
    if (edge->cut) continue;
    for (uint32_t k = 0; k < work->passes[i].n; k++) {
      work->items[first + k] =
          (item){.width = dummy_width, .layer = layout->boxes[edge->from].layer + 1 + k};
      unsorted[n++] = (segment){previous, first + k};
      previous = first + k;
    }
    unsorted[n++] = (segment){previous, edge->to};
  }
  sort_by_layer(work, unsorted);
  free(unsorted);
  return true;
}

/* Sorts items by layer; within a layer in order of creation. */
static void make_order(work *work) {
  for (uint32_t i = 0; i < work->n_items; i++) work->layer_start[work->items[i].layer + 1]++;
  for (uint32_t i = 0; i < work->n_layers; i++) work->layer_start[i + 1] += work->layer_start[i];
  for (uint32_t i = work->n_items; i-- > 0;) {
    work->order[--work->layer_start[work->items[i].layer + 1]] = (ranked){.item = i};
  }
  for (uint32_t i = 0; i < work->n_layers; i++) work->layer_start[i] = work->layer_start[i + 1];
  work->layer_start[work->n_layers] = work->n_items;
}

/* ---------------------------------------------------------------- order */

static void clear_sums(work *work, uint32_t layer) {
  for (uint32_t i = work->layer_start[layer]; i < work->layer_start[layer + 1]; i++) {
    item *it = &work->items[work->order[i].item];
    it->sum = 0;
    it->count = 0;
  }
}

/* Sums, for each item of `layer`, the positions of its neighbours in the layer above or below. */
static void layout_sum_neighbours(work *work, uint32_t layer, bool above) {
  if (above && layer == 0) return;
  uint32_t between = above ? layer - 1 : layer;
  for (uint32_t i = work->segment_start[between]; i < work->segment_start[between + 1]; i++) {
    segment segment = work->segments[i];
    item *it = &work->items[above ? segment.to : segment.from];
    it->sum += work->items[above ? segment.from : segment.to].x;
    it->count++;
  }
}

static double mean_position(const item *it) { return it->count ? it->sum / it->count : it->x; }

static int compare_ranked(const void *left, const void *right) {
  const ranked *a = left, *b = right;
  if (a->key != b->key) return a->key < b->key ? -1 : 1;
  return (a->item > b->item) - (a->item < b->item);
}

/* Places the items of a layer side by side in order. */
static void pack_layer(work *work, uint32_t layer) {
  double x = 0;
  for (uint32_t i = work->layer_start[layer]; i < work->layer_start[layer + 1]; i++) {
    item *it = &work->items[work->order[i].item];
    it->x = x + it->width / 2;
    x += it->width + column_gap;
  }
}

static void order_layer(work *work, uint32_t layer, bool down) {
  uint32_t start = work->layer_start[layer], end = work->layer_start[layer + 1];
  layout_sum_neighbours(work, layer, down);
  for (uint32_t i = start; i < end; i++)
    work->order[i].key = mean_position(&work->items[work->order[i].item]);
  qsort(work->order + start, end - start, sizeof *work->order, compare_ranked);
  pack_layer(work, layer);
}

/* ---------------------------------------------------------------- coordinates */

/* Places the items of a layer by least squares in a fixed order. Starts from the differences of
 * wanted and packed positions, and pools neighbours wherever the differences descend. */
static void place_layer(work *work, uint32_t layer, bool down) {
  uint32_t start = work->layer_start[layer], end = work->layer_start[layer + 1], n = 0;
  double packed = 0;
  clear_sums(work, layer);
  layout_sum_neighbours(work, layer, down);
  for (uint32_t i = start; i < end; i++) {
    const item *it = &work->items[work->order[i].item];
    double weight = work->order[i].item >= work->layout->n_boxes ? dummy_weight : 1;
    double wanted = mean_position(it) - (packed + it->width / 2);
    packed += it->width + column_gap;
    work->pools[n++] = (pool){wanted * weight, weight, 1};
    while (n > 1) {
      pool *a = &work->pools[n - 2], *b = &work->pools[n - 1];
      if (a->sum / a->weight <= b->sum / b->weight) break;
      *a = (pool){a->sum + b->sum, a->weight + b->weight, a->count + b->count};
      n--;
    }
  }
  packed = 0;
  for (uint32_t i = start, p = 0; p < n; p++) {
    for (uint32_t k = 0; k < work->pools[p].count; k++, i++) {
      item *it = &work->items[work->order[i].item];
      it->x = packed + it->width / 2 + work->pools[p].sum / work->pools[p].weight;
      packed += it->width + column_gap;
    }
  }
}

static void sweep_layers(work *effort, int sweeps, void (*visit)(work *, uint32_t, bool)) {
  for (int s = 0; s < sweeps; s++) {
    for (uint32_t i = 1; i < effort->n_layers; i++)
      visit(effort, s % 2 ? effort->n_layers - 1 - i : i, s % 2 == 0);
  }
}

static void assign_positions(work *work) {
  layout *layout = work->layout;
  double left = 0, right = 0, y = margin;
  for (uint32_t i = 0; i < work->n_items; i++) {
    const item *it = &work->items[i];
    if (!i || it->x - it->width / 2 < left) left = it->x - it->width / 2;
    if (!i || it->x + it->width / 2 > right) right = it->x + it->width / 2;
  }
  for (uint32_t layer = 0; layer < work->n_layers; layer++) {
    double height = 0;
    uint32_t start = work->layer_start[layer], end = work->layer_start[layer + 1];
    for (uint32_t i = start; i < end; i++) {
      uint32_t k = work->order[i].item;
      if (k < layout->n_boxes && layout->boxes[k].height > height) height = layout->boxes[k].height;
    }
    for (uint32_t i = start; i < end; i++) {
      uint32_t k = work->order[i].item;
      double x = work->items[k].x - left + margin;
      if (k < layout->n_boxes) {
        layout->boxes[k].x = x;
        layout->boxes[k].y = y + (height - layout->boxes[k].height) / 2;
      } else {
        work->passed[k - layout->n_boxes] = (passage){x, y, y + height};
      }
    }
    y += height + row_gap;
  }
  layout->width = right - left + 2 * margin;
  layout->height = work->n_layers ? y - row_gap + margin : 2 * margin;
}

/* ---------------------------------------------------------------- lines */

bool add_point(layout *layout, layout_edge *edge, double x, double y) {
  if (!array_reserve(&layout->points, &layout->cap_points, (size_t)layout->n_points + 1,
                     sizeof *layout->points))
    return false;
  if (!edge->n_points) edge->first_point = layout->n_points;
  layout->points[layout->n_points++] = (layout_point){x, y};
  edge->n_points++;
  return true;
}

/* Adds a curve from the last point to (x, y), vertical at both ends. */
static bool add_curve(layout *layout, layout_edge *edge, double x, double y) {
  const layout_point last = layout->points[layout->n_points - 1];
  const double middle = (last.y + y) / 2;
  return add_point(layout, edge, last.x, middle) && add_point(layout, edge, x, middle) &&
         add_point(layout, edge, x, y);
}

/* Returns the x from which an edge approaches its end. */
static double find_approach(const work *work, uint32_t i) {
  const passages *passages = &work->passes[i];
  return passages->n ? work->passed[passages->first + passages->n - 1].x
                     : work->layout->boxes[work->layout->edges[i].from].x;
}

/* Returns the x at which edge `index` enters its box. Edges [first, end) enter side by side,
 * ordered by their approach. */
static double choose_port(const work *work, uint32_t first, uint32_t end, uint32_t index) {
  const layout *layout = work->layout;
  const layout_box *box = &layout->boxes[layout->edges[index].to];
  const double mine = find_approach(work, index);
  uint32_t before = 0, count = 0;
  for (uint32_t i = first; i < end; i++) {
    if (layout->edges[i].cut) continue;
    const double other = find_approach(work, i);
    before += other < mine || (other == mine && i < index);
    count++;
  }
  double step = box->width / (count + 1);
  if (step > 22) step = 22;
  return box->x + (before - (count - 1) / 2.0) * step;
}

static bool place_line(work *work, uint32_t first, uint32_t end, uint32_t index) {
  layout *layout = work->layout;
  layout_edge *edge = &layout->edges[index];
  const layout_box *from = &layout->boxes[edge->from];
  const passages *passages = &work->passes[index];
  bool good = add_point(layout, edge, from->x, from->y + from->height);
  for (uint32_t i = passages->first; good && i < passages->first + passages->n; i++) {
    const passage *at = &work->passed[i];
    good = add_curve(layout, edge, at->x, at->top) && add_curve(layout, edge, at->x, at->bottom);
  }
  return good && add_curve(layout, edge, choose_port(work, first, end, index),
                           layout->boxes[edge->to].y - LAYOUT_ARROW);
}

static bool place_lines(work *work) {
  const layout *layout = work->layout;
  bool good = true;
  for (uint32_t first = 0, end; good && first < layout->n_edges; first = end) {
    for (end = first; end < layout->n_edges && layout->edges[end].to == layout->edges[first].to;)
      end++;
    for (uint32_t i = first; good && i < end; i++)
      if (!layout->edges[i].cut) good = place_line(work, first, end, i);
  }
  return good;
}

/* ---------------------------------------------------------------- the whole layout */

static bool allocate_work(work *work) {
  work->items = layout_allocate(work->n_items, sizeof *work->items);
  work->order = layout_allocate(work->n_items, sizeof *work->order);
  work->pools = layout_allocate(work->n_items, sizeof *work->pools);
  work->passed = layout_allocate(work->n_items, sizeof *work->passed);
  work->segments = layout_allocate(work->n_segments, sizeof *work->segments);
  work->layer_start = layout_allocate((size_t)work->n_layers + 2, sizeof *work->layer_start);
  work->segment_start = layout_allocate((size_t)work->n_layers + 2, sizeof *work->segment_start);
  return work->items && work->order && work->pools && work->passed && work->segments &&
         work->layer_start && work->segment_start;
}

static bool layout_place(work *work) {
  work->passes = layout_allocate(work->layout->n_edges, sizeof *work->passes);
  if (!work->passes) return false;
  layout_count_items(work);
  if (!allocate_work(work) || !make_items(work)) return false;
  make_order(work);
  for (uint32_t i = 0; i < work->n_layers; i++) pack_layer(work, i);
  sweep_layers(work, ORDER_SWEEPS, order_layer);
  sweep_layers(work, PLACE_SWEEPS, place_layer);
  assign_positions(work);
  return place_lines(work);
}

bool place_boxes(layout *layout) {
  work work = {.layout = layout};
  const bool good = layout_place(&work);
  free(work.passes);
  free(work.passed);
  free(work.items);
  free(work.order);
  free(work.pools);
  free(work.segments);
  free(work.layer_start);
  free(work.segment_start);
  return good;
}

void free_layout(layout *layout) {
  free(layout->points);
  layout->points = NULL;
}
