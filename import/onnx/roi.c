/* RoiAlign and MaxRoiPool: elements of images within boxes. A box is divided into bins, each of
 * which has one value per channel. The number of elements in a bin depends on the box. */
#include "import/emit_bags.h"
#include "import/onnx/converters.h"

enum { MAX_POSITIONS = 1 << 20 }; /* in a bin along an axis, so that I64 holds all products */

/* The row of an element in the table of input. */
static value *roi_place(importer *im, const value *input, value *image, value *row, value *column) {
  value *whole = emit_binary(im, "add", emit_binary_number(im, "mul", image, input->dims[2]), row);
  return emit_binary(im, "add", emit_binary_number(im, "mul", whole, input->dims[3]), column);
}

/* Column i of boxes as (n, 1). */
static value *roi_column(importer *im, value *boxes, int i) {
  return emit_slice(im, boxes, 1, number_int(i), number_int(i + 1));
}

/* ---------------------------------------------------------------- RoiAlign */

typedef struct roi_align {
  double scale;
  int64_t bins[2];  /* down, across */
  int64_t sampling; /* positions in a bin along an axis; 0: its length, rounded up */
  bool aligned, is_max;
} roi_align;

/* Boxes along a spatial axis: (n, 1) each. */
typedef struct roi_grid {
  value *start, *bin, *positions;
} roi_grid;

/* boxes: (n, 4), as x1, y1, x2, y2 */
static roi_grid roi_grid_of(importer *im, const roi_align *call, value *boxes, int axis) {
  value *ends[2];
  for (int i = 0; i < 2; i++) {
    ends[i] = emit_binary_float(im, "mul", roi_column(im, boxes, 2 * i + 1 - axis), call->scale);
    if (call->aligned) ends[i] = emit_binary_float(im, "sub", ends[i], 0.5);
  }
  value *length = emit_binary(im, "sub", ends[1], ends[0]);
  if (!call->aligned) length = emit_binary_float(im, "maximum", length, 1);
  roi_grid grid = {.start = ends[0]};
  grid.bin = emit_binary_float(im, "div", length, (double)call->bins[axis]);
  if (!grid.bin) return grid;
  value *count = emit_unary(im, "ceil", grid.bin), *zero = value_of_float(im, grid.bin->type, 0);
  count = emit_where(im, emit_binary(im, "gt", count, zero), count, zero); /* NaN is 0 */
  count = emit_binary_float(im, "minimum", count, MAX_POSITIONS);
  grid.positions =
      call->sampling > 0 && boxes ? value_of_float(im, boxes->type, (double)call->sampling) : count;
  return grid;
}

/* Returns, for each box, the positions in one of its bins, row by row. */
static parts roi_parts(importer *im, const roi_align *call, value *boxes) {
  if (call->sampling > 0)
    return emit_equal_parts(im, number_int(call->sampling * call->sampling), boxes->dims[0]);
  const roi_grid down = roi_grid_of(im, call, boxes, 0), across = roi_grid_of(im, call, boxes, 1);
  value *counts = emit_binary(im, "mul", emit_cast(im, down.positions, CLAVE_I64),
                              emit_cast(im, across.positions, CLAVE_I64));
  return emit_parts(im, emit_flat(im, counts));
}

/* Returns the neighbours of position `index` in each bin, (bins, samples, 2), and their weights,
 * which are 0 if the position is more than 1 outside of the image. index: (samples, 1) */
static value *roi_along(importer *im, const roi_align *call, const roi_grid *grid, value *index,
                        int64_t bins, number size, value **weights) {
  if (!grid->bin || !index) return NULL;
  const clave_dtype type = grid->bin->type;
  value *bin = emit_cast(im, emit_positions(im, number_int(bins), 0, 3), type);
  value *begin = emit_binary(im, "add", grid->start, emit_binary(im, "mul", bin, grid->bin));
  value *within = emit_binary_float(im, "add", emit_cast(im, index, type), 0.5);
  within = emit_binary(im, "div", emit_binary(im, "mul", within, grid->bin), grid->positions);
  value *position = emit_binary(im, "add", begin, within);
  value *places = emit_neighbours(im, position, 0, number_sub(im, size, number_int(1)), weights);
  value *end = value_of_number(im, type, number_to_float(im, size));
  value *inside = emit_binary(im, "logical_and", emit_binary_float(im, "ge", position, -1),
                              emit_binary(im, "le", position, end));
  *weights = emit_where(im, inside, *weights, value_of_float(im, type, 0));
  if (!call->is_max) *weights = emit_binary(im, "div", *weights, grid->positions);
  return places;
}

/* Returns (samples, 1): the row or column of each sample's position in its bin. */
static value *roi_coordinate(importer *im, const char *kind, value *place, const roi_grid *across) {
  return emit_binary(im, kind, place, emit_cast(im, across->positions, CLAVE_I64));
}

/* Returns the bags of all bins: (height * width * boxes, channels). */
static value *roi_align_bags(importer *im, const roi_align *call, value *input, value *boxes,
                             value *images) {
  if (!input || !boxes || !images) return NULL;
  const parts parts = roi_parts(im, call, boxes);
  value *samples = emit_index_select(im, boxes, 0, parts.owner), *weight[2] = {NULL, NULL};
  const number s = parts.total, h = number_int(call->bins[0]), w = number_int(call->bins[1]),
               one = number_int(1), two = number_int(2);
  if (!samples || !import_ok(im)) return NULL;
  const roi_grid down = roi_grid_of(im, call, samples, 0),
                 across = roi_grid_of(im, call, samples, 1);
  value *place = emit_unsqueeze(im, parts.place, 1);
  value *rows = roi_along(im, call, &down, roi_coordinate(im, "floor_divide", place, &across),
                          call->bins[0], input->dims[2], &weight[0]);
  value *columns = roi_along(im, call, &across, roi_coordinate(im, "remainder", place, &across),
                             call->bins[1], input->dims[3], &weight[1]);
  const number tall[5] = {h, one, s, two, one}, wide[5] = {one, w, s, one, two},
               all[5] = {h, w, s, two, two}, each[3] = {s, one, one};
  value *factor = emit_binary(im, "mul", emit_reshape(im, weight[0], 5, tall),
                              emit_reshape(im, weight[1], 5, wide));
  value *image = emit_reshape(im, emit_index_select(im, images, 0, parts.owner), 3, each);
  value *index = roi_place(im, input, image, emit_reshape(im, rows, 5, tall),
                           emit_reshape(im, columns, 5, wide));
  index = emit_flat_as(im, index, 5, all);
  factor = emit_flat_as(im, factor, 5, all);
  value *first = emit_positions(im, number_mul(im, h, w), 0, 2);
  first = emit_binary(im, "add", emit_binary_number(im, "mul", first, s), parts.first);
  first = emit_flat(im, emit_binary_number(im, "mul", first, number_int(CORNERS)));
  value *table = emit_channel_rows(im, input);
  if (!call->is_max) return emit_bags(im, table, index, first, factor);
  value *products =
      emit_binary(im, "mul", emit_index_select(im, table, 0, index), emit_unsqueeze(im, factor, 1));
  value *list = products ? emit_positions(im, products->dims[0], 0, 1) : NULL;
  return emit_bags(im, products, list, first, NULL);
}

static bool roi_read(node *node, roi_align *call) {
  static const char *const modes[] = {"avg", "max"}, *const transforms[] = {"half_pixel",
                                                                            "output_half_pixel"};
  call->is_max = node_choice(node, "mode", modes, 2) == 1;
  call->aligned = node->version >= 16 &&
                  node_choice(node, "coordinate_transformation_mode", transforms, 2) == 0;
  call->bins[0] = node_int(node, "output_height", 1);
  call->bins[1] = node_int(node, "output_width", 1);
  call->sampling = node_int(node, "sampling_ratio", 0);
  call->scale = node_float(node, "spatial_scale", 1);
  if (call->bins[0] < 1 || call->bins[1] < 1 || call->bins[0] > INT32_MAX ||
      call->bins[1] > INT32_MAX || call->sampling > MAX_POSITIONS)
    import_invalid(node->im, "the output's size or the sampling ratio is out of range");
  return import_ok(node->im);
}

void onnx_roi_align(node *node) {
  static const int order[4] = {2, 3, 0, 1};
  importer *im = node->im;
  value *x = node_required(node, 0), *boxes = node_required(node, 1),
        *images = node_required(node, 2);
  roi_align call;
  if (!x || !boxes || !images || !roi_read(node, &call)) return;
  const clave_dtype type = x->type, computed = type == CLAVE_F64 ? CLAVE_F64 : CLAVE_F32;
  if (x->rank != 4 || boxes->rank != 2 || images->rank != 1) {
    import_invalid(im, "the ranks of the inputs are %d, %d and %d", x->rank, boxes->rank,
                   images->rank);
    return;
  }
  const number dims[4] = {number_int(call.bins[0]), number_int(call.bins[1]), boxes->dims[0],
                          x->dims[1]};
  value *out = roi_align_bags(im, &call, emit_cast(im, x, computed), emit_cast(im, boxes, computed),
                              emit_cast(im, images, CLAVE_I64));
  out = emit_permute(im, emit_reshape(im, out, 4, dims), order);
  node_set(node, 0, emit_cast(im, out, type));
}

/* ---------------------------------------------------------------- MaxRoiPool */

/* Rounds to the nearest integer, halves away from zero. */
static value *roi_rounded(importer *im, value *input) {
  value *whole = emit_unary(im, "trunc", input);
  value *rest = emit_unary(im, "abs", emit_binary(im, "sub", input, whole));
  value *more = emit_where(im, emit_binary_float(im, "ge", rest, 0.5),
                           emit_unary(im, "sign", input), emit_binary_float(im, "mul", whole, 0));
  return emit_binary(im, "add", whole, more);
}

/* Returns the first element of each bin along a spatial axis of that size, (K, n), I64, and the
 * number of its elements. boxes: (K, 5), as image, x1, y1, x2, y2 */
static value *roi_bins(importer *im, value *boxes, double scale, int64_t n, number size, int axis,
                       value **count) {
  value *ends[2], *edges[2];
  for (int i = 0; i < 2; i++)
    ends[i] = roi_rounded(
        im, emit_binary_float(im, "mul", roi_column(im, boxes, 2 * i + 2 - axis), scale));
  if (!ends[0]) return NULL;
  value *length = emit_binary_float(im, "add", emit_binary(im, "sub", ends[1], ends[0]), 1);
  value *bin = emit_binary_float(im, "div", emit_binary_float(im, "maximum", length, 1), (double)n);
  value *limit = value_of_number(im, bin ? bin->type : CLAVE_F32, number_to_float(im, size));
  for (int i = 0; i < 2 && bin; i++) {
    value *at =
        emit_binary_number(im, "add", emit_positions(im, number_int(n), 1, 2), number_int(i));
    at = emit_binary(im, "mul", emit_cast(im, at, bin->type), bin);
    at = emit_binary(im, "add", emit_unary(im, i ? "ceil" : "floor", at), ends[0]);
    edges[i] = emit_binary(im, "minimum", emit_binary_float(im, "maximum", at, 0), limit);
  }
  if (!import_ok(im)) return NULL;
  value *more = emit_binary_float(im, "maximum", emit_binary(im, "sub", edges[1], edges[0]), 0);
  *count = emit_cast(im, more, CLAVE_I64);
  return emit_cast(im, edges[0], CLAVE_I64);
}

/* Returns the places of the elements of all bins, in order, and where each bin begins. */
static value *roi_pool_places(importer *im, const value *input, value *boxes, double scale,
                              const int64_t *bins, value **first) {
  const number shape[3] = {boxes->dims[0], number_int(bins[0]), number_int(bins[1])};
  value *tall = NULL, *wide = NULL;
  value *rows = roi_bins(im, boxes, scale, bins[0], input->dims[2], 0, &tall),
        *columns = roi_bins(im, boxes, scale, bins[1], input->dims[3], 1, &wide);
  value *image = emit_unsqueeze(im, emit_cast(im, roi_column(im, boxes, 0), CLAVE_I64), 2);
  tall = emit_unsqueeze(im, tall, 2);
  wide = emit_unsqueeze(im, wide, 1);
  value *corner =
      roi_place(im, input, image, emit_unsqueeze(im, rows, 2), emit_unsqueeze(im, columns, 1));
  const parts parts =
      emit_parts(im, emit_flat_as(im, emit_binary(im, "mul", tall, wide), 3, shape));
  value *across = emit_index_select(im, emit_flat_as(im, wide, 3, shape), 0, parts.owner);
  value *down = emit_binary(im, "floor_divide", parts.place, across);
  value *at = emit_index_select(im, emit_flat_as(im, corner, 3, shape), 0, parts.owner);
  at = emit_binary(im, "add", at, emit_binary_number(im, "mul", down, input->dims[3]));
  *first = parts.first;
  return emit_binary(im, "add", at, emit_binary(im, "remainder", parts.place, across));
}

void onnx_max_roi_pool(node *node) {
  static const int order[4] = {0, 3, 1, 2};
  importer *im = node->im;
  value *x = node_required(node, 0), *boxes = node_required(node, 1), *first = NULL;
  const double scale = node_float(node, "spatial_scale", 1);
  int64_t bins[2] = {0, 0};
  const int n = node_ints(node, "pooled_shape", bins, 2);
  if (!x || !boxes) return;
  if (n != 2 || bins[0] < 1 || bins[1] < 1 || bins[0] > INT32_MAX || bins[1] > INT32_MAX ||
      x->rank != 4 || boxes->rank != 2)
    import_invalid(im, "pooled_shape or the ranks of the inputs are wrong");
  if (!import_ok(im)) return;
  const clave_dtype type = x->type, computed = type == CLAVE_F64 ? CLAVE_F64 : CLAVE_F32;
  boxes = emit_cast(im, boxes, computed);
  if (!boxes) return;
  value *places = roi_pool_places(im, x, boxes, scale, bins, &first);
  const number dims[4] = {boxes->dims[0], number_int(bins[0]), number_int(bins[1]), x->dims[1]};
  value *out = emit_bags(im, emit_channel_rows(im, x), places, first, NULL);
  node_set(node, 0, emit_permute(im, emit_reshape(im, out, 4, dims), order));
}
