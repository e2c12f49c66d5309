/* Layered drawing in four steps: layers by longest path, a dummy item where a line passes a layer,
 * orders by the mean position of neighbours, coordinates by least squares (pooling neighbours that
 * would overlap). */
#include "cli/layout.h"

#include <stdlib.h>

#include "base/memory.h"

enum { LONGEST_EDGE = 12, ORDER_SWEEPS = 12, PLACE_SWEEPS = 16 };
static const double column_gap = LAYOUT_COLUMN_GAP, row_gap = LAYOUT_ROW_GAP,
                    margin = LAYOUT_MARGIN, dummy_width = 6, dummy_weight = 4;

/* A box, or a place where a line passes. */
typedef struct item {
  double x, width, sum; /* the centre; sum and count of the neighbours' positions */
  uint32_t layer, count;
} item;

typedef struct segment {
  uint32_t from, to; /* items in neighbouring layers */
} segment;

typedef struct ranked {
  double key;
  uint32_t item;
} ranked;

/* A run of items that touch: their common shift from the packed positions. */
typedef struct pool {
  double sum, weight;
  uint32_t count;
} pool;

/* A line passes a layer that it skips at x, straight from `top` to `bottom`. */
typedef struct passage {
  double x, top, bottom;
} passage;

typedef struct passages {
  uint32_t first, n;
} passages;

typedef struct work {
  layout *l;
  passage *passed;  /* (n_items - n_boxes) */
  passages *passes; /* (n_edges) of each edge: in `passed` */
  item *items;
  uint32_t n_items, n_layers, n_segments;
  segment *segments;
  ranked *order;           /* items layer by layer */
  uint32_t *layer_start;   /* (n_layers + 1) into order */
  uint32_t *segment_start; /* (n_layers + 1) into segments, by the layer of `from` */
  pool *pools;
} work;

static void *allocate(size_t count, size_t size) { return calloc(count ? count : 1, size); }

/* ---------------------------------------------------------------- layers */

bool find_layers(layout *l) {
  uint32_t *nearest = allocate(l->n_boxes, sizeof *nearest);
  bool *fed = allocate(l->n_boxes, sizeof *fed);
  for (uint32_t i = 0; nearest && fed && i < l->n_edges; i++) {
    const layout_edge *e = &l->edges[i];
    uint32_t below = l->boxes[e->from].layer + 1;
    if (l->boxes[e->to].layer < below) l->boxes[e->to].layer = below;
    fed[e->to] = true;
  }
  for (uint32_t i = 0; nearest && fed && i < l->n_edges; i++) {
    const layout_edge *e = &l->edges[i];
    uint32_t layer = l->boxes[e->to].layer;
    if (!nearest[e->from] || nearest[e->from] > layer) nearest[e->from] = layer;
  }
  for (uint32_t i = 0; nearest && fed && i < l->n_boxes; i++) {
    if (!fed[i] && nearest[i])
      l->boxes[i].layer = nearest[i] - 1; /* sources move down to their use */
  }
  for (uint32_t i = 0; i < l->n_edges; i++) {
    layout_edge *e = &l->edges[i];
    e->cut = l->boxes[e->to].layer - l->boxes[e->from].layer > LONGEST_EDGE;
  }
  bool good = nearest && fed;
  free(nearest);
  free(fed);
  return good;
}

/* Counts what is needed: a dummy per layer passed. */
static void count_items(work *w) {
  layout *l = w->l;
  w->n_items = l->n_boxes;
  for (uint32_t i = 0; i < l->n_boxes; i++) {
    if (w->n_layers <= l->boxes[i].layer) w->n_layers = l->boxes[i].layer + 1;
  }
  for (uint32_t i = 0; i < l->n_edges; i++) {
    const layout_edge *e = &l->edges[i];
    uint32_t layers = l->boxes[e->to].layer - l->boxes[e->from].layer;
    if (e->cut) continue;
    w->passes[i] = (passages){w->n_items - l->n_boxes, layers - 1};
    w->n_items += layers - 1;
    w->n_segments += layers;
  }
}

static void sort_by_layer(work *w, const segment *unsorted) {
  uint32_t *next = w->segment_start;
  for (uint32_t i = 0; i < w->n_segments; i++) next[w->items[unsorted[i].from].layer + 1]++;
  for (uint32_t i = 0; i < w->n_layers; i++) next[i + 1] += next[i];
  for (uint32_t i = w->n_segments; i-- > 0;) {
    w->segments[--next[w->items[unsorted[i].from].layer + 1]] = unsorted[i];
  }
  /* next[k + 1] is now where layer k starts; move it to next[k] */
  for (uint32_t i = 0; i < w->n_layers; i++) next[i] = next[i + 1];
  next[w->n_layers] = w->n_segments;
}

static bool make_items(work *w) {
  layout *l = w->l;
  segment *unsorted = allocate(w->n_segments, sizeof *unsorted);
  uint32_t n = 0;
  if (!unsorted) return false;
  for (uint32_t i = 0; i < l->n_boxes; i++) {
    w->items[i] = (item){.width = l->boxes[i].width, .layer = l->boxes[i].layer};
  }
  for (uint32_t i = 0; i < l->n_edges; i++) {
    const layout_edge *e = &l->edges[i];
    uint32_t previous = e->from, first = l->n_boxes + w->passes[i].first;
    if (e->cut) continue;
    for (uint32_t k = 0; k < w->passes[i].n; k++) {
      w->items[first + k] = (item){.width = dummy_width, .layer = l->boxes[e->from].layer + 1 + k};
      unsorted[n++] = (segment){previous, first + k};
      previous = first + k;
    }
    unsorted[n++] = (segment){previous, e->to};
  }
  sort_by_layer(w, unsorted);
  free(unsorted);
  return true;
}

/* Items by layer, in the order in which they were made. */
static void make_order(work *w) {
  for (uint32_t i = 0; i < w->n_items; i++) w->layer_start[w->items[i].layer + 1]++;
  for (uint32_t i = 0; i < w->n_layers; i++) w->layer_start[i + 1] += w->layer_start[i];
  for (uint32_t i = w->n_items; i-- > 0;) {
    w->order[--w->layer_start[w->items[i].layer + 1]] = (ranked){.item = i};
  }
  for (uint32_t i = 0; i < w->n_layers; i++) w->layer_start[i] = w->layer_start[i + 1];
  w->layer_start[w->n_layers] = w->n_items;
}

/* ---------------------------------------------------------------- order */

static void clear_sums(work *w, uint32_t layer) {
  for (uint32_t i = w->layer_start[layer]; i < w->layer_start[layer + 1]; i++) {
    item *it = &w->items[w->order[i].item];
    it->sum = 0;
    it->count = 0;
  }
}

/* Adds, for each item of `layer`, the positions of its neighbours in the layer above, or below. */
static void sum_neighbours(work *w, uint32_t layer, bool above) {
  if (above && layer == 0) return;
  uint32_t between = above ? layer - 1 : layer;
  for (uint32_t i = w->segment_start[between]; i < w->segment_start[between + 1]; i++) {
    segment s = w->segments[i];
    item *it = &w->items[above ? s.to : s.from];
    it->sum += w->items[above ? s.from : s.to].x;
    it->count++;
  }
}

static double mean_position(const item *it) { return it->count ? it->sum / it->count : it->x; }

static int compare_ranked(const void *a, const void *b) {
  const ranked *x = a, *y = b;
  if (x->key != y->key) return x->key < y->key ? -1 : 1;
  return (x->item > y->item) - (x->item < y->item);
}

/* Items of a layer side by side, in order. */
static void pack_layer(work *w, uint32_t layer) {
  double x = 0;
  for (uint32_t i = w->layer_start[layer]; i < w->layer_start[layer + 1]; i++) {
    item *it = &w->items[w->order[i].item];
    it->x = x + it->width / 2;
    x += it->width + column_gap;
  }
}

static void order_layer(work *w, uint32_t layer, bool down) {
  uint32_t start = w->layer_start[layer], end = w->layer_start[layer + 1];
  sum_neighbours(w, layer, down);
  for (uint32_t i = start; i < end; i++)
    w->order[i].key = mean_position(&w->items[w->order[i].item]);
  qsort(w->order + start, end - start, sizeof *w->order, compare_ranked);
  pack_layer(w, layer);
}

/* ---------------------------------------------------------------- coordinates */

/* Least squares under the order: start from the wanted positions, less the packed ones; wherever
 * they descend, pool. */
static void place_layer(work *w, uint32_t layer, bool down) {
  uint32_t start = w->layer_start[layer], end = w->layer_start[layer + 1], n = 0;
  double packed = 0;
  clear_sums(w, layer);
  sum_neighbours(w, layer, down);
  for (uint32_t i = start; i < end; i++) {
    const item *it = &w->items[w->order[i].item];
    double weight = w->order[i].item >= w->l->n_boxes ? dummy_weight : 1;
    double wanted = mean_position(it) - (packed + it->width / 2);
    packed += it->width + column_gap;
    w->pools[n++] = (pool){wanted * weight, weight, 1};
    while (n > 1) {
      pool *a = &w->pools[n - 2], *b = &w->pools[n - 1];
      if (a->sum / a->weight <= b->sum / b->weight) break;
      *a = (pool){a->sum + b->sum, a->weight + b->weight, a->count + b->count};
      n--;
    }
  }
  packed = 0;
  for (uint32_t i = start, p = 0; p < n; p++) {
    for (uint32_t k = 0; k < w->pools[p].count; k++, i++) {
      item *it = &w->items[w->order[i].item];
      it->x = packed + it->width / 2 + w->pools[p].sum / w->pools[p].weight;
      packed += it->width + column_gap;
    }
  }
}

static void sweep_layers(work *w, int sweeps, void (*visit)(work *, uint32_t, bool)) {
  for (int s = 0; s < sweeps; s++) {
    for (uint32_t i = 1; i < w->n_layers; i++)
      visit(w, s % 2 ? w->n_layers - 1 - i : i, s % 2 == 0);
  }
}

static void give_positions(work *w) {
  layout *l = w->l;
  double left = 0, right = 0, y = margin;
  for (uint32_t i = 0; i < w->n_items; i++) {
    const item *it = &w->items[i];
    if (!i || it->x - it->width / 2 < left) left = it->x - it->width / 2;
    if (!i || it->x + it->width / 2 > right) right = it->x + it->width / 2;
  }
  for (uint32_t layer = 0; layer < w->n_layers; layer++) {
    double height = 0;
    uint32_t start = w->layer_start[layer], end = w->layer_start[layer + 1];
    for (uint32_t i = start; i < end; i++) {
      uint32_t k = w->order[i].item;
      if (k < l->n_boxes && l->boxes[k].height > height) height = l->boxes[k].height;
    }
    for (uint32_t i = start; i < end; i++) {
      uint32_t k = w->order[i].item;
      double x = w->items[k].x - left + margin;
      if (k < l->n_boxes) {
        l->boxes[k].x = x;
        l->boxes[k].y = y + (height - l->boxes[k].height) / 2;
      } else {
        w->passed[k - l->n_boxes] = (passage){x, y, y + height};
      }
    }
    y += height + row_gap;
  }
  l->width = right - left + 2 * margin;
  l->height = w->n_layers ? y - row_gap + margin : 2 * margin;
}

/* ---------------------------------------------------------------- lines */

bool add_point(layout *l, layout_edge *e, double x, double y) {
  if (!array_reserve(&l->points, &l->cap_points, (size_t)l->n_points + 1, sizeof *l->points))
    return false;
  if (!e->n_points) e->first_point = l->n_points;
  l->points[l->n_points++] = (layout_point){x, y};
  e->n_points++;
  return true;
}

/* From the last point on; it leaves and arrives upright. */
static bool add_curve(layout *l, layout_edge *e, double x, double y) {
  const layout_point last = l->points[l->n_points - 1];
  const double middle = (last.y + y) / 2;
  return add_point(l, e, last.x, middle) && add_point(l, e, x, middle) && add_point(l, e, x, y);
}

/* Where an edge comes from, seen from its end. */
static double find_approach(const work *w, uint32_t i) {
  const passages *p = &w->passes[i];
  return p->n ? w->passed[p->first + p->n - 1].x : w->l->boxes[w->l->edges[i].from].x;
}

/* The lines into a box, edges [first, end), end side by side, in the order in which they come. */
static double choose_port(const work *w, uint32_t first, uint32_t end, uint32_t index) {
  const layout *l = w->l;
  const layout_box *box = &l->boxes[l->edges[index].to];
  const double mine = find_approach(w, index);
  uint32_t before = 0, count = 0;
  for (uint32_t i = first; i < end; i++) {
    if (l->edges[i].cut) continue;
    const double other = find_approach(w, i);
    before += other < mine || (other == mine && i < index);
    count++;
  }
  double step = box->width / (count + 1);
  if (step > 22) step = 22;
  return box->x + (before - (count - 1) / 2.0) * step;
}

static bool give_line(work *w, uint32_t first, uint32_t end, uint32_t index) {
  layout *l = w->l;
  layout_edge *e = &l->edges[index];
  const layout_box *from = &l->boxes[e->from];
  const passages *p = &w->passes[index];
  bool good = add_point(l, e, from->x, from->y + from->height);
  for (uint32_t i = p->first; good && i < p->first + p->n; i++) {
    const passage *at = &w->passed[i];
    good = add_curve(l, e, at->x, at->top) && add_curve(l, e, at->x, at->bottom);
  }
  return good &&
         add_curve(l, e, choose_port(w, first, end, index), l->boxes[e->to].y - LAYOUT_ARROW);
}

static bool give_lines(work *w) {
  const layout *l = w->l;
  bool good = true;
  for (uint32_t first = 0, end; good && first < l->n_edges; first = end) {
    for (end = first; end < l->n_edges && l->edges[end].to == l->edges[first].to;) end++;
    for (uint32_t i = first; good && i < end; i++)
      if (!l->edges[i].cut) good = give_line(w, first, end, i);
  }
  return good;
}

/* ---------------------------------------------------------------- all of it */

static bool allocate_work(work *w) {
  w->items = allocate(w->n_items, sizeof *w->items);
  w->order = allocate(w->n_items, sizeof *w->order);
  w->pools = allocate(w->n_items, sizeof *w->pools);
  w->passed = allocate(w->n_items, sizeof *w->passed);
  w->segments = allocate(w->n_segments, sizeof *w->segments);
  w->layer_start = allocate((size_t)w->n_layers + 2, sizeof *w->layer_start);
  w->segment_start = allocate((size_t)w->n_layers + 2, sizeof *w->segment_start);
  return w->items && w->order && w->pools && w->passed && w->segments && w->layer_start &&
         w->segment_start;
}

static bool place(work *w) {
  w->passes = allocate(w->l->n_edges, sizeof *w->passes);
  if (!w->passes) return false;
  count_items(w);
  if (!allocate_work(w) || !make_items(w)) return false;
  make_order(w);
  for (uint32_t i = 0; i < w->n_layers; i++) pack_layer(w, i);
  sweep_layers(w, ORDER_SWEEPS, order_layer);
  sweep_layers(w, PLACE_SWEEPS, place_layer);
  give_positions(w);
  return give_lines(w);
}

bool place_boxes(layout *l) {
  work w = {.l = l};
  const bool good = place(&w);
  free(w.passes);
  free(w.passed);
  free(w.items);
  free(w.order);
  free(w.pools);
  free(w.segments);
  free(w.layer_start);
  free(w.segment_start);
  return good;
}

void free_layout(layout *l) {
  free(l->points);
  l->points = NULL;
}
