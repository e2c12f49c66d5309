/* Winograd convolutions: kernels_cl/conv/winograd.cl for CPUs, winograd_groups.cl elsewhere. A few
 * rows of tiles are processed at once: their transformed inputs (factors) stay cached. */
#include "backend/opencl/ops/conv/conv.h"

#include "backend/opencl/ops/families.h"
#include "backend/opencl/ops/gemm/gemm.h"
#include "opencl_ops.h"

enum {
  CHUNK_BYTES = 4 << 20, /* maximum bytes of factors, unless one row of tiles has more */
  MAX_TILES = 32, /* maximum tiles whose sums of a panel stay in a cache together with the weight */
  BLOCK = 32,     /* outputs, and tiles, of a work-group */
  ITEMS_EACH = 4  /* work-items per core, if there are enough tiles */
};

/* The division of a convolution. Rows are rows of tiles of all images. */
typedef struct tiling {
  const conv_desc *desc;
  int tile;
  int64_t factors, columns; /* factors per tile; outputs per panel */
  int64_t panels;           /* panels per group */
  int64_t tile_rows, tile_columns;
  int64_t rows, chunk;   /* all rows; rows processed at once */
  int64_t pitch;         /* floats between channels of a factor */
  int64_t tiles_at_once; /* tiles per work-item, an even number; on CPUs */
} tiling;

static int64_t conv_winograd_lanes_of(const tiling *tiling) { return min_i64(tiling->columns, 16); }
static int64_t conv_winograd_sums_of(const tiling *tiling) {
  return tiling->factors *
         (tiling->tiles_at_once * tiling->columns + conv_winograd_lanes_of(tiling));
}

/* Returns the tiles per work-item: as many as fit local memory with their sums, but few enough that
 * all cores have work. Returns 0 if fewer fit than are multiplied at once. */
static int64_t conv_winograd_tiles_at_once(const device_traits *traits, const tiling *tiling) {
  const int64_t each = tiling->factors * (int64_t)sizeof(float),
                tiles = tiling->chunk * tiling->tile_columns,
                fit = ((int64_t)traits->local_memory / each - conv_winograd_lanes_of(tiling)) /
                      tiling->columns / 2 * 2,
                items = ceil_div(ITEMS_EACH * (int64_t)traits->compute_units,
                                 tiling->panels * tiling->desc->groups);
  int64_t most = max_i64(ceil_div(tiles, items), gemm_panel_rows(traits));
  most = min_i64(most, min_i64(fit, MAX_TILES));
  if (fit < gemm_panel_rows(traits)) return 0;
  return ceil_div(ceil_div(tiles, ceil_div(tiles, most)), 2) * 2;
}

/* Returns the pitch, with which the channels of a factor begin in different cache sets. It has room
 * for one more tile, which CPUs may multiply. */
static int64_t pitch_of(const device_traits *traits, const tiling *tiling, int64_t rows) {
  enum { LINE = 16 };
  const int64_t tiles = rows * tiling->tile_columns;
  return traits->is_cpu ? (tiles + 1) | 1 : (ceil_div(tiles + LINE, LINE) | 1) * LINE;
}

static int64_t conv_winograd_blocks_of(const tiling *tiling) {
  return ceil_div(tiling->desc->channels, conv_winograd_lanes_of(tiling));
}

static int64_t factor_floats(const device_traits *traits, const tiling *tiling) {
  int64_t step = tiling->desc->channels * tiling->pitch;
  if (traits->is_cpu)
    step = (conv_winograd_blocks_of(tiling) * tiling->pitch + 1) * conv_winograd_lanes_of(tiling);
  return tiling->desc->groups * tiling->factors * step;
}

/* Returns the floats of the sums, which follow the factors in scratch memory on GPUs. */
static int64_t conv_winograd_sum_floats(const device_traits *traits, const tiling *tiling) {
  return traits->is_cpu
             ? 0
             : tiling->desc->groups * tiling->desc->outputs * tiling->factors * tiling->pitch;
}

static int64_t scratch_floats(const cl_recorder *recorder, const tiling *tiling) {
  return factor_floats(recorder_traits(recorder), tiling) +
         conv_winograd_sum_floats(recorder_traits(recorder), tiling);
}

static tiling conv_winograd_plan_tiling(const cl_recorder *recorder, const conv_desc *desc,
                                        int tile) {
  const device_traits *traits = recorder_traits(recorder);
  tiling tiling = {.desc = desc,
                   .tile = tile,
                   .columns = traits->is_cpu ? 2 * (int64_t)traits->vector_width : BLOCK};
  tiling.factors = (int64_t)(tile + 2) * (tile + 2);
  tiling.panels = ceil_div(desc->outputs, tiling.columns);
  tiling.tile_rows = ceil_div(desc->dims[1].out, tile);
  tiling.tile_columns = ceil_div(desc->dims[2].out, tile);
  tiling.rows = desc->images * tiling.tile_rows;
  int64_t row =
      tiling.factors * desc->groups * desc->channels * tiling.tile_columns * (int64_t)sizeof(float);
  tiling.chunk = min_i64(tiling.rows, max_i64(CHUNK_BYTES / max_i64(row, 1), 1));
  tiling.chunk = ceil_div(tiling.rows, ceil_div(tiling.rows, tiling.chunk));
  tiling.pitch = pitch_of(traits, &tiling, tiling.chunk);
  tiling.tiles_at_once = conv_winograd_tiles_at_once(traits, &tiling);
  return tiling;
}

static size_t conv_winograd_packed_bytes(const tiling *tiling) {
  return sizeof(float) * (size_t)(tiling->desc->groups * tiling->panels * tiling->factors *
                                  tiling->desc->channels * tiling->columns);
}

bool conv_winograd_usable(const void *conv, const kernel_variant *variant) {
  const conv_problem *problem = conv;
  const cl_recorder *recorder = problem->recorder;
  const conv_desc *desc = &problem->desc;
  const device_traits *traits = recorder_traits(recorder);
  if (!conv_accepts_winograd(desc) || !recorder_may_pack(recorder, desc->weight)) return false;
  const tiling tiling = conv_winograd_plan_tiling(recorder, desc, (int)variant->parameters[0]);
  return (tiling.tiles_at_once > 0 || !traits->is_cpu) &&
         tiling.rows * tiling.tile_columns < INT32_MAX / 2 &&
         conv_winograd_packed_bytes(&tiling) <= traits->max_alloc &&
         (uint64_t)scratch_floats(recorder, &tiling) * sizeof(float) <= traits->max_alloc;
}

/* ---------------------------------------------------------------- launches */

static void begin_winograd(launch *launch, cl_recorder *recorder, const node *node,
                           const tiling *tiling) {
  launch_begin(launch, recorder, node);
  launch_compute(launch, DTYPE_F32);
  launch_define(launch, "TILE", tiling->tile);
  if (scratch_floats(recorder, tiling) > INT32_MAX / 2) launch_wide(launch);
}

static bool has_floats(const bound_tensor *weight) {
  return weight->tensor.type == DTYPE_F32 && !weight->tensor.encoding.kind;
}

/* Packs the transformed weight. If the weight is not F32, its floats follow in scratch memory. */
static clave_status transform_weight(cl_recorder *recorder, const node *node,
                                     const tiling *tiling) {
  const conv_desc *desc = tiling->desc;
  const int64_t items = desc->groups * tiling->panels * desc->channels,
                packed = (int64_t)(conv_winograd_packed_bytes(tiling) / sizeof(float));
  arg_buffer weight = buffer_arg(desc->weight);
  launch launch;
  if (!has_floats(desc->weight)) {
    weight = scratch_arg(packed);
    TRY(recorder_scratch(recorder,
                         sizeof(float) * (size_t)(packed + tensor_numel(&desc->weight->tensor))));
    TRY(conv_floats(recorder, node, desc->weight, weight));
  }
  begin_winograd(&launch, recorder, node, tiling);
  launch_define(&launch, "COLUMNS", (int)tiling->columns);
  launch_args(&launch, &(winograd_pack_args){.weight = weight,
                                             .packed = scratch_arg(0),
                                             .items = items,
                                             .channels = desc->channels,
                                             .outputs = desc->outputs});
  return launch_loops(&launch, items, 1, tiling->columns * tiling->factors);
}

/* The packed factors, and the weight's floats, with which kernels recompute non-finite tiles. */
typedef struct weights {
  int factors;
  arg_buffer weight;
} weights;

static clave_status provide_weight(cl_recorder *recorder, const node *node, const tiling *tiling,
                                   weights *out) {
  const pack_request request = {.x = tiling->desc->weight,
                                .kind = PACKED_WINOGRAD,
                                .size = {tiling->desc->groups, tiling->tile, tiling->columns},
                                .bytes = conv_winograd_packed_bytes(tiling)};
  cl_recorder *pack;
  TRY(recorder_pack(recorder, &request, &out->factors, &pack));
  TRY(transform_weight(pack, node, tiling));
  out->weight = buffer_arg(tiling->desc->weight);
  if (has_floats(tiling->desc->weight)) return NULL;
  return conv_pack_floats(recorder, node, tiling->desc->weight, &out->weight);
}

static tiles_params tiles_of(const tiling *tiling, int64_t first) {
  const conv_desc *desc = tiling->desc;
  return (tiles_params){.channels = desc->channels,
                        .in_rows = desc->dims[1].in,
                        .in_columns = desc->dims[2].in,
                        .top = desc->dims[1].padding,
                        .left = desc->dims[2].padding,
                        .tile_rows = tiling->tile_rows,
                        .tile_columns = tiling->tile_columns,
                        .first_row = first,
                        .pitch = tiling->pitch};
}

static images_params images_of(const conv_desc *desc, const weights *weights) {
  return (images_params){.x = buffer_arg(desc->x),
                         .weight = weights->weight,
                         .bias = optional_arg(desc->bias),
                         .out = buffer_arg(desc->out),
                         .groups = desc->groups,
                         .n_outputs = desc->outputs,
                         .out_rows = desc->dims[1].out,
                         .out_columns = desc->dims[2].out};
}

/* Begins a CPU launch. Both CPU kernels use the same macros, so they share one program. */
static void begin_vectors(launch *launch, cl_recorder *recorder, const node *node,
                          const tiling *tiling) {
  begin_winograd(launch, recorder, node, tiling);
  launch_define(launch, "WIDTH", (int)recorder_traits(recorder)->vector_width);
  launch_define(launch, "HAS_BIAS", tiling->desc->bias != NULL);
}

static clave_status conv_winograd_make_factors(cl_recorder *recorder, const node *node,
                                               const tiling *tiling, int64_t first, int64_t rows) {
  const conv_desc *desc = tiling->desc;
  launch launch;
  begin_vectors(&launch, recorder, node, tiling);
  launch_args(&launch, &(winograd_factors_args){.x = buffer_arg(desc->x),
                                                .factors = scratch_arg(0),
                                                .images = desc->images,
                                                .groups = desc->groups,
                                                .tiles = tiles_of(tiling, first)});
  size_t global[2] = {(size_t)rows, (size_t)(desc->groups * conv_winograd_blocks_of(tiling))},
         local[2] = {1, 1};
  return launch_run(&launch, 2, global, local);
}

static clave_status conv_winograd_make_outputs(cl_recorder *recorder, const node *node,
                                               const tiling *tiling, const weights *weights,
                                               int64_t first, int64_t rows) {
  const conv_desc *desc = tiling->desc;
  launch launch;
  begin_vectors(&launch, recorder, node, tiling);
  launch_args(&launch, &(winograd_args){.images = images_of(desc, weights),
                                        .factors = scratch_arg(0),
                                        .packed = packed_arg(weights->factors),
                                        .rows = rows,
                                        .tiles_at_once = tiling->tiles_at_once,
                                        .tiles = tiles_of(tiling, first),
                                        .sums = local_arg(sizeof(float) *
                                                          (size_t)conv_winograd_sums_of(tiling))});
  launch_epilogue_of_part(&launch, first + rows == tiling->rows);
  size_t global[2] = {(size_t)ceil_div(rows * tiling->tile_columns, tiling->tiles_at_once),
                      (size_t)(desc->groups * tiling->panels)},
         local[2] = {1, 1};
  return launch_run(&launch, 2, global, local);
}

/* ---------------------------------------------------------------- for many work-items */

static clave_status make_tile_factors(cl_recorder *recorder, const node *node, const tiling *tiling,
                                      int64_t first, int64_t rows) {
  const conv_desc *desc = tiling->desc;
  const int64_t n_tiles = rows * tiling->tile_columns,
                items = desc->groups * desc->channels * n_tiles;
  launch launch;
  begin_winograd(&launch, recorder, node, tiling);
  launch_args(&launch, &(winograd_tile_factors_args){.x = buffer_arg(desc->x),
                                                     .factors = scratch_arg(0),
                                                     .items = items,
                                                     .groups = desc->groups,
                                                     .n_tiles = n_tiles,
                                                     .tiles = tiles_of(tiling, first)});
  return launch_items(&launch, items);
}

static clave_status conv_winograd_multiply_tiles(cl_recorder *recorder, const node *node,
                                                 const tiling *tiling, const weights *weights,
                                                 int64_t rows) {
  const conv_desc *desc = tiling->desc;
  const int64_t n_tiles = rows * tiling->tile_columns;
  launch launch;
  begin_winograd(&launch, recorder, node, tiling);
  launch_args(&launch, &(winograd_products_args){
                           .factors = scratch_arg(0),
                           .packed = packed_arg(weights->factors),
                           .sums = scratch_arg(factor_floats(recorder_traits(recorder), tiling)),
                           .channels = desc->channels,
                           .n_outputs = desc->outputs,
                           .n_tiles = n_tiles,
                           .pitch = tiling->pitch});
  size_t global[3] = {(size_t)ceil_div(n_tiles, BLOCK) * LOCAL_SIZE, (size_t)tiling->panels,
                      (size_t)(desc->groups * tiling->factors)},
         local[3] = {LOCAL_SIZE, 1, 1};
  return launch_run(&launch, 3, global, local);
}

static clave_status make_tile_outputs(cl_recorder *recorder, const node *node, const tiling *tiling,
                                      const weights *weights, int64_t first, int64_t rows) {
  const conv_desc *desc = tiling->desc;
  const int64_t n_tiles = rows * tiling->tile_columns,
                items = desc->groups * desc->outputs * n_tiles;
  launch launch;
  begin_winograd(&launch, recorder, node, tiling);
  launch_define(&launch, "HAS_BIAS", desc->bias != NULL);
  launch_args(&launch, &(winograd_tile_outputs_args){
                           .images = images_of(desc, weights),
                           .sums = scratch_arg(factor_floats(recorder_traits(recorder), tiling)),
                           .items = items,
                           .n_tiles = n_tiles,
                           .tiles = tiles_of(tiling, first)});
  launch_epilogue_of_part(&launch, first + rows == tiling->rows);
  return launch_items(&launch, items);
}

/* ---------------------------------------------------------------- the op */

static clave_status conv_winograd_run_rows(cl_recorder *recorder, const node *node,
                                           const tiling *tiling, const weights *weights,
                                           int64_t first, int64_t rows) {
  if (recorder_traits(recorder)->is_cpu) {
    TRY(conv_winograd_make_factors(recorder, node, tiling, first, rows));
    return conv_winograd_make_outputs(recorder, node, tiling, weights, first, rows);
  }
  TRY(make_tile_factors(recorder, node, tiling, first, rows));
  TRY(conv_winograd_multiply_tiles(recorder, node, tiling, weights, rows));
  return make_tile_outputs(recorder, node, tiling, weights, first, rows);
}

clave_status conv_winograd(const void *conv) {
  const conv_problem *problem = conv;
  cl_recorder *recorder = problem->recorder;
  const node *node = problem->node;
  const tiling tiling =
      conv_winograd_plan_tiling(recorder, &problem->desc, (int)problem->parameters[0]);
  weights weights;
  TRY(provide_weight(recorder, node, &tiling, &weights));
  TRY(recorder_scratch(recorder, sizeof(float) * (size_t)scratch_floats(recorder, &tiling)));
  for (int64_t first = 0; first < tiling.rows; first += tiling.chunk)
    TRY(conv_winograd_run_rows(recorder, node, &tiling, &weights, first,
                               min_i64(tiling.chunk, tiling.rows - first)));
  return NULL;
}
