/* Convolutions by Winograd's method: kernels_cl/winograd.cl for CPUs, winograd_groups.cl elsewhere.
 * Some rows of tiles are taken at once, whose factors a cache keeps. */
#include "backend/opencl/winograd.h"

#include "backend/opencl/conv_weight.h"
#include "backend/opencl/families.h"
#include "backend/opencl/gemm.h"
#include "opencl_ops.h"

enum {
  CHUNK_BYTES = 4 << 20, /* of factors, unless a row of tiles has more */
  SUM_BYTES = 160 << 10, /* of a part's sums: what the second-level cache keeps beside factors */
  NARROW = 8,            /* tiles of a row for which vectors of so many lanes do */
  BLOCK = 32,            /* outputs, and tiles, that a group of work-items multiplies */
  ITEMS_EACH = 4         /* work-items for a core, where there are so many tiles */
};

/* How a convolution is cut. Rows are those of the tiles of all images. */
typedef struct tiling {
  const conv_form *f;
  int tile;
  int64_t factors, columns; /* of a tile; outputs of a panel */
  int64_t panels;           /* of a group */
  int64_t tile_rows, tile_columns;
  int64_t rows, chunk;             /* all rows; those taken at once */
  int64_t pitch;                   /* floats of a channel of a factor */
  int64_t part_rows, part_columns; /* tiles of a work-item */
  int64_t part_tiles;              /* whose sums there is room for */
} tiling;

static int64_t lanes_of(const tiling *t) { return min_i64(t->columns, 16); }
static int64_t sums_of(const tiling *t, int64_t tiles) {
  return t->factors * (tiles * t->columns + lanes_of(t));
}

/* Tiles of a work-item at most: whose sums fit, and so few that there is work for all cores, but no
 * fewer than are multiplied at once; 0: those do not fit. */
static int64_t most_tiles(const device_traits *d, const tiling *t) {
  int64_t bytes = min_i64((int64_t)d->local_memory, SUM_BYTES), most = gemm_panel_rows(d);
  while (sums_of(t, most + gemm_panel_rows(d)) * (int64_t)sizeof(float) <= bytes)
    most += gemm_panel_rows(d);
  if (sums_of(t, most) * (int64_t)sizeof(float) > bytes) return 0;
  int64_t parts = ceil_div(ITEMS_EACH * (int64_t)d->compute_units, t->panels * t->f->groups);
  int64_t wanted = ceil_div(t->chunk * t->tile_columns, parts);
  return min_i64(most, ceil_div(wanted, gemm_panel_rows(d)) * gemm_panel_rows(d));
}

/* Whole rows of tiles, or a part of one; parts of about the same size. */
static void cut_parts(const device_traits *d, tiling *t) {
  if (!d->is_cpu) return;
  t->part_tiles = most_tiles(d, t);
  if (t->part_tiles == 0) return;
  if (t->tile_columns <= t->part_tiles) {
    int64_t parts = ceil_div(t->chunk, t->part_tiles / t->tile_columns);
    t->part_rows = ceil_div(t->chunk, parts);
    t->part_columns = t->tile_columns;
  } else {
    int64_t parts = ceil_div(t->tile_columns, t->part_tiles), step = gemm_panel_rows(d);
    t->part_rows = 1;
    t->part_columns = ceil_div(ceil_div(t->tile_columns, parts), step) * step;
  }
}

/* Channels of a factor begin in different lines of a cache's sets. */
static int64_t pitch_of(const tiling *t, int64_t rows) {
  enum { LINE = 16 };
  int64_t lines = ceil_div(rows * t->tile_columns + LINE, LINE);
  return (lines | 1) * LINE;
}

static int64_t factor_floats(const tiling *t, int64_t rows) {
  return t->f->groups * t->f->channels * t->factors * pitch_of(t, rows);
}

/* Of all sums, which lie behind the factors where local memory does not hold them. */
static int64_t sum_floats(const device_traits *d, const tiling *t) {
  return d->is_cpu ? 0 : t->f->groups * t->f->outputs * t->factors * t->pitch;
}

static int64_t scratch_floats(const cl_recorder *s, const tiling *t) {
  return factor_floats(t, t->chunk) + sum_floats(recorder_traits(s), t);
}

static tiling plan_tiling(const cl_recorder *s, const conv_form *f, int tile) {
  const device_traits *d = recorder_traits(s);
  tiling t = {.f = f, .tile = tile, .columns = d->is_cpu ? 2 * (int64_t)d->vector_width : BLOCK};
  t.factors = (int64_t)(tile + 2) * (tile + 2);
  t.panels = ceil_div(f->outputs, t.columns);
  t.tile_rows = ceil_div(f->dims[1].out, tile);
  t.tile_columns = ceil_div(f->dims[2].out, tile);
  t.rows = f->images * t.tile_rows;
  int64_t row = t.factors * f->groups * f->channels * t.tile_columns * (int64_t)sizeof(float);
  t.chunk = min_i64(t.rows, max_i64(CHUNK_BYTES / max_i64(row, 1), 1));
  t.chunk = ceil_div(t.rows, ceil_div(t.rows, t.chunk));
  t.pitch = pitch_of(&t, t.chunk);
  cut_parts(d, &t);
  return t;
}

static size_t packed_bytes(const tiling *t) {
  return sizeof(float) *
         (size_t)(t->f->groups * t->panels * t->factors * t->f->channels * t->columns);
}

bool winograd_usable(const cl_recorder *s, const conv_form *f, int tile) {
  const device_traits *d = recorder_traits(s);
  if (!conv_takes_winograd(f) || !recorder_takes_form(s, f->weight)) return false;
  const tiling t = plan_tiling(s, f, tile);
  return (t.part_tiles > 0 || !d->is_cpu) && packed_bytes(&t) <= d->max_alloc &&
         (uint64_t)scratch_floats(s, &t) * sizeof(float) <= d->max_alloc;
}

/* ---------------------------------------------------------------- launches */

typedef struct packing {
  const node *n;
  const tiling *t;
} packing;

static void begin_winograd(launch *l, cl_recorder *s, const node *n, const tiling *t) {
  launch_begin(l, s, n);
  launch_compute(l, DTYPE_F32);
  launch_define(l, "TILE", t->tile);
  if (scratch_floats(s, t) > INT32_MAX / 2) launch_wide(l);
}

static bool has_floats(const bound_tensor *weight) {
  return weight->t.type == DTYPE_F32 && !weight->t.encoding.kind;
}

/* Of a weight that is no floats these lie behind the form. */
static clave_status fill_form(cl_recorder *s, const void *ctx) {
  const packing *p = ctx;
  const conv_form *f = p->t->f;
  const int64_t items = f->groups * p->t->panels * f->channels,
                packed = (int64_t)(packed_bytes(p->t) / sizeof(float));
  arg_buffer weight = buffer_arg(f->weight);
  launch l;
  if (!has_floats(f->weight)) {
    weight = scratch_arg(packed);
    TRY(recorder_scratch(s, sizeof(float) * (size_t)(packed + tensor_numel(&f->weight->t))));
    TRY(conv_floats(s, p->n, f->weight, weight));
  }
  begin_winograd(&l, s, p->n, p->t);
  launch_define(&l, "COLUMNS", (int)p->t->columns);
  launch_args(&l, &(winograd_pack_args){.weight = weight,
                                        .packed = scratch_arg(0),
                                        .items = items,
                                        .channels = f->channels,
                                        .outputs = f->outputs});
  return launch_loops(&l, items, 1, p->t->columns * p->t->factors);
}

/* The factors, and what mends tiles: the weight's floats. */
typedef struct forms {
  int factors;
  arg_buffer weight;
} forms;

static clave_status provide_weight(cl_recorder *s, const node *n, const tiling *t, forms *out) {
  const packing p = {n, t};
  const form_request f = {.x = t->f->weight,
                          .kind = FORM_WINOGRAD,
                          .size = {t->f->groups, t->tile, t->columns},
                          .bytes = packed_bytes(t),
                          .fill = fill_form,
                          .ctx = &p};
  TRY(recorder_form(s, &f, &out->factors));
  out->weight = buffer_arg(t->f->weight);
  if (has_floats(t->f->weight)) return NULL;
  return conv_float_form(s, n, t->f->weight, &out->weight);
}

static tiles_params tiles_of(const tiling *t, int64_t first) {
  const conv_form *f = t->f;
  return (tiles_params){.channels = f->channels,
                        .in_rows = f->dims[1].in,
                        .in_columns = f->dims[2].in,
                        .top = f->dims[1].padding,
                        .left = f->dims[2].padding,
                        .tile_rows = t->tile_rows,
                        .tile_columns = t->tile_columns,
                        .first_row = first,
                        .pitch = t->pitch};
}

static images_params images_of(const conv_form *f, const forms *w) {
  return (images_params){.x = buffer_arg(f->x),
                         .weight = w->weight,
                         .bias = optional_arg(f->bias),
                         .out = buffer_arg(f->out),
                         .groups = f->groups,
                         .n_outputs = f->outputs,
                         .out_rows = f->dims[1].out,
                         .out_columns = f->dims[2].out};
}

static clave_status make_factors(cl_recorder *s, const node *n, const tiling *t, int64_t first,
                                 int64_t rows) {
  const conv_form *f = t->f;
  const int64_t items = f->groups * f->channels;
  launch l;
  begin_winograd(&l, s, n, t);
  launch_define(&l, "WIDTH", (int)recorder_traits(s)->vector_width);
  launch_define(&l, "LANES", t->tile_columns <= NARROW ? NARROW : (int)lanes_of(t));
  launch_args(&l, &(winograd_factors_args){.x = buffer_arg(f->x),
                                           .factors = scratch_arg(0),
                                           .items = items,
                                           .rows = rows,
                                           .tiles = tiles_of(t, first)});
  return launch_loops(&l, items, 1, rows * t->tile_columns * t->factors);
}

static clave_status make_outputs(cl_recorder *s, const node *n, const tiling *t, const forms *w,
                                 int64_t first, int64_t rows) {
  const conv_form *f = t->f;
  launch l;
  begin_winograd(&l, s, n, t);
  launch_define(&l, "WIDTH", (int)recorder_traits(s)->vector_width);
  launch_define(&l, "HAS_BIAS", f->bias != NULL);
  launch_args(
      &l, &(winograd_args){.images = images_of(f, w),
                           .factors = scratch_arg(0),
                           .packed = form_arg(w->factors),
                           .rows = rows,
                           .part_rows = t->part_rows,
                           .part_columns = t->part_columns,
                           .part_tiles = t->part_tiles,
                           .tiles = tiles_of(t, first),
                           .sums = local_arg(sizeof(float) * (size_t)sums_of(t, t->part_tiles))});
  launch_epilogue_of_part(&l, first + rows == t->rows);
  size_t global[2] = {(size_t)(ceil_div(t->tile_columns, t->part_columns) *
                               ceil_div(rows, t->part_rows)),
                      (size_t)(f->groups * t->panels)},
         local[2] = {1, 1};
  return launch_run(&l, 2, global, local);
}

/* ---------------------------------------------------------------- for many work-items */

static clave_status make_tile_factors(cl_recorder *s, const node *n, const tiling *t, int64_t first,
                                      int64_t rows) {
  const conv_form *f = t->f;
  const int64_t n_tiles = rows * t->tile_columns, items = f->groups * f->channels * n_tiles;
  launch l;
  begin_winograd(&l, s, n, t);
  launch_args(&l, &(winograd_tile_factors_args){.x = buffer_arg(f->x),
                                                .factors = scratch_arg(0),
                                                .items = items,
                                                .groups = f->groups,
                                                .n_tiles = n_tiles,
                                                .tiles = tiles_of(t, first)});
  return launch_items(&l, items);
}

static clave_status multiply_tiles(cl_recorder *s, const node *n, const tiling *t, const forms *w,
                                   int64_t rows) {
  const conv_form *f = t->f;
  const int64_t n_tiles = rows * t->tile_columns;
  launch l;
  begin_winograd(&l, s, n, t);
  launch_args(&l, &(winograd_products_args){.factors = scratch_arg(0),
                                            .packed = form_arg(w->factors),
                                            .sums = scratch_arg(factor_floats(t, t->chunk)),
                                            .channels = f->channels,
                                            .n_outputs = f->outputs,
                                            .n_tiles = n_tiles,
                                            .pitch = t->pitch});
  size_t global[3] = {(size_t)ceil_div(n_tiles, BLOCK) * LOCAL_SIZE, (size_t)t->panels,
                      (size_t)(f->groups * t->factors)},
         local[3] = {LOCAL_SIZE, 1, 1};
  return launch_run(&l, 3, global, local);
}

static clave_status make_tile_outputs(cl_recorder *s, const node *n, const tiling *t,
                                      const forms *w, int64_t first, int64_t rows) {
  const conv_form *f = t->f;
  const int64_t n_tiles = rows * t->tile_columns, items = f->groups * f->outputs * n_tiles;
  launch l;
  begin_winograd(&l, s, n, t);
  launch_define(&l, "HAS_BIAS", f->bias != NULL);
  launch_args(&l, &(winograd_tile_outputs_args){.images = images_of(f, w),
                                                .sums = scratch_arg(factor_floats(t, t->chunk)),
                                                .items = items,
                                                .n_tiles = n_tiles,
                                                .tiles = tiles_of(t, first)});
  launch_epilogue_of_part(&l, first + rows == t->rows);
  return launch_items(&l, items);
}

/* ---------------------------------------------------------------- the op */

static clave_status run_rows(cl_recorder *s, const node *n, const tiling *t, const forms *w,
                             int64_t first, int64_t rows) {
  if (recorder_traits(s)->is_cpu) {
    TRY(make_factors(s, n, t, first, rows));
    return make_outputs(s, n, t, w, first, rows);
  }
  TRY(make_tile_factors(s, n, t, first, rows));
  TRY(multiply_tiles(s, n, t, w, rows));
  return make_tile_outputs(s, n, t, w, first, rows);
}

clave_status opencl_winograd(cl_recorder *s, const node *n, const conv_form *f, int tile) {
  const tiling t = plan_tiling(s, f, tile);
  forms w;
  TRY(provide_weight(s, n, &t, &w));
  TRY(recorder_scratch(s, sizeof(float) * (size_t)scratch_floats(s, &t)));
  for (int64_t first = 0; first < t.rows; first += t.chunk)
    TRY(run_rows(s, n, &t, &w, first, min_i64(t.chunk, t.rows - first)));
  return NULL;
}
