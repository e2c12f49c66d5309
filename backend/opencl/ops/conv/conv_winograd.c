/* Convolutions by Winograd's method: kernels_cl/conv/winograd.cl for CPUs, winograd_groups.cl
 * elsewhere. Some rows of tiles are taken at once, whose factors a cache keeps. */
#include "backend/opencl/ops/conv/conv.h"

#include "backend/opencl/ops/families.h"
#include "backend/opencl/ops/gemm/gemm.h"
#include "opencl_ops.h"

enum {
  CHUNK_BYTES = 4 << 20, /* of factors, unless a row of tiles has more */
  MOST_PART = 32,        /* tiles whose sums of a panel a cache keeps beside weights */
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
  int64_t rows, chunk; /* all rows; those taken at once */
  int64_t pitch;       /* floats of a channel of a factor */
  int64_t part_tiles;  /* of a work-item, an even number; on CPUs */
} tiling;

static int64_t lanes_of(const tiling *t) { return min_i64(t->columns, 16); }
static int64_t sums_of(const tiling *t) {
  return t->factors * (t->part_tiles * t->columns + lanes_of(t));
}

/* Tiles of a work-item: whose sums fit, and so few that there is work for all cores, but not fewer
 * than are multiplied at once; 0: those do not fit. Parts are of about the same size. */
static int64_t tiles_of_part(const device_traits *d, const tiling *t) {
  const int64_t each = t->factors * (int64_t)sizeof(float), tiles = t->chunk * t->tile_columns,
                fit = ((int64_t)d->local_memory / each - lanes_of(t)) / t->columns / 2 * 2,
                items = ceil_div(ITEMS_EACH * (int64_t)d->compute_units, t->panels * t->f->groups);
  int64_t most = max_i64(ceil_div(tiles, items), gemm_panel_rows(d));
  most = min_i64(most, min_i64(fit, MOST_PART));
  if (fit < gemm_panel_rows(d)) return 0;
  return ceil_div(ceil_div(tiles, ceil_div(tiles, most)), 2) * 2;
}

/* Channels of a factor begin in different lines of a cache's sets. On CPUs a tile more may be
 * multiplied than there are. */
static int64_t pitch_of(const device_traits *d, const tiling *t, int64_t rows) {
  enum { LINE = 16 };
  const int64_t tiles = rows * t->tile_columns;
  return d->is_cpu ? (tiles + 1) | 1 : (ceil_div(tiles + LINE, LINE) | 1) * LINE;
}

static int64_t blocks_of(const tiling *t) { return ceil_div(t->f->channels, lanes_of(t)); }

static int64_t factor_floats(const device_traits *d, const tiling *t) {
  int64_t step = t->f->channels * t->pitch;
  if (d->is_cpu) step = (blocks_of(t) * t->pitch + 1) * lanes_of(t);
  return t->f->groups * t->factors * step;
}

/* Of all sums, which lie behind the factors where local memory does not hold them. */
static int64_t sum_floats(const device_traits *d, const tiling *t) {
  return d->is_cpu ? 0 : t->f->groups * t->f->outputs * t->factors * t->pitch;
}

static int64_t scratch_floats(const cl_recorder *s, const tiling *t) {
  return factor_floats(recorder_traits(s), t) + sum_floats(recorder_traits(s), t);
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
  t.pitch = pitch_of(d, &t, t.chunk);
  t.part_tiles = tiles_of_part(d, &t);
  return t;
}

static size_t packed_bytes(const tiling *t) {
  return sizeof(float) *
         (size_t)(t->f->groups * t->panels * t->factors * t->f->channels * t->columns);
}

bool conv_winograd_usable(const void *conv, const kernel_variant *variant) {
  const conv_problem *p = conv;
  const cl_recorder *s = p->s;
  const conv_form *f = &p->f;
  const device_traits *d = recorder_traits(s);
  if (!conv_takes_winograd(f) || !recorder_may_pack(s, f->weight)) return false;
  const tiling t = plan_tiling(s, f, (int)variant->parameters[0]);
  return (t.part_tiles > 0 || !d->is_cpu) && t.rows * t.tile_columns < INT32_MAX / 2 &&
         packed_bytes(&t) <= d->max_alloc &&
         (uint64_t)scratch_floats(s, &t) * sizeof(float) <= d->max_alloc;
}

/* ---------------------------------------------------------------- launches */

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
static clave_status transform_weight(cl_recorder *s, const node *n, const tiling *t) {
  const conv_form *f = t->f;
  const int64_t items = f->groups * t->panels * f->channels,
                packed = (int64_t)(packed_bytes(t) / sizeof(float));
  arg_buffer weight = buffer_arg(f->weight);
  launch l;
  if (!has_floats(f->weight)) {
    weight = scratch_arg(packed);
    TRY(recorder_scratch(s, sizeof(float) * (size_t)(packed + tensor_numel(&f->weight->t))));
    TRY(conv_floats(s, n, f->weight, weight));
  }
  begin_winograd(&l, s, n, t);
  launch_define(&l, "COLUMNS", (int)t->columns);
  launch_args(&l, &(winograd_pack_args){.weight = weight,
                                        .packed = scratch_arg(0),
                                        .items = items,
                                        .channels = f->channels,
                                        .outputs = f->outputs});
  return launch_loops(&l, items, 1, t->columns * t->factors);
}

/* The factors, and what mends tiles: the weight's floats. */
typedef struct forms {
  int factors;
  arg_buffer weight;
} forms;

static clave_status provide_weight(cl_recorder *s, const node *n, const tiling *t, forms *out) {
  const pack_request f = {.x = t->f->weight,
                          .kind = PACKED_WINOGRAD,
                          .size = {t->f->groups, t->tile, t->columns},
                          .bytes = packed_bytes(t)};
  cl_recorder *pack;
  TRY(recorder_pack(s, &f, &out->factors, &pack));
  TRY(transform_weight(pack, n, t));
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

/* Both kernels of CPUs are of one program. */
static void begin_vectors(launch *l, cl_recorder *s, const node *n, const tiling *t) {
  begin_winograd(l, s, n, t);
  launch_define(l, "WIDTH", (int)recorder_traits(s)->vector_width);
  launch_define(l, "HAS_BIAS", t->f->bias != NULL);
}

static clave_status make_factors(cl_recorder *s, const node *n, const tiling *t, int64_t first,
                                 int64_t rows) {
  const conv_form *f = t->f;
  launch l;
  begin_vectors(&l, s, n, t);
  launch_args(&l, &(winograd_factors_args){.x = buffer_arg(f->x),
                                           .factors = scratch_arg(0),
                                           .images = f->images,
                                           .groups = f->groups,
                                           .tiles = tiles_of(t, first)});
  size_t global[2] = {(size_t)rows, (size_t)(f->groups * blocks_of(t))}, local[2] = {1, 1};
  return launch_run(&l, 2, global, local);
}

static clave_status make_outputs(cl_recorder *s, const node *n, const tiling *t, const forms *w,
                                 int64_t first, int64_t rows) {
  const conv_form *f = t->f;
  launch l;
  begin_vectors(&l, s, n, t);
  launch_args(&l, &(winograd_args){.images = images_of(f, w),
                                   .factors = scratch_arg(0),
                                   .packed = packed_arg(w->factors),
                                   .rows = rows,
                                   .part_tiles = t->part_tiles,
                                   .tiles = tiles_of(t, first),
                                   .sums = local_arg(sizeof(float) * (size_t)sums_of(t))});
  launch_epilogue_of_part(&l, first + rows == t->rows);
  size_t global[2] = {(size_t)ceil_div(rows * t->tile_columns, t->part_tiles),
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
  launch_args(&l,
              &(winograd_products_args){.factors = scratch_arg(0),
                                        .packed = packed_arg(w->factors),
                                        .sums = scratch_arg(factor_floats(recorder_traits(s), t)),
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
  launch_args(
      &l, &(winograd_tile_outputs_args){.images = images_of(f, w),
                                        .sums = scratch_arg(factor_floats(recorder_traits(s), t)),
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

clave_status conv_winograd(const void *conv) {
  const conv_problem *p = conv;
  cl_recorder *s = p->s;
  const node *n = p->n;
  const tiling t = plan_tiling(s, &p->f, (int)p->parameters[0]);
  forms w;
  TRY(provide_weight(s, n, &t, &w));
  TRY(recorder_scratch(s, sizeof(float) * (size_t)scratch_floats(s, &t)));
  for (int64_t first = 0; first < t.rows; first += t.chunk)
    TRY(run_rows(s, n, &t, &w, first, min_i64(t.chunk, t.rows - first)));
  return NULL;
}
