/* Direct convolutions by work-groups: kernels_cl/conv/conv_groups.cl. Divides out into tiles that
 * waste little at its edges and whose inputs fit local memory. */
#include "backend/opencl/ops/conv/conv.h"

#include "backend/opencl/ops/families.h"
#include "backend/opencl/ops/splits.h"
#include "opencl_ops.h"

enum {
  STAGE_BYTES = 16 << 10, /* bytes staged at once, unless one channel needs more; leaves local
                             memory for several groups */
  STAGE_TAPS = 512        /* maximum products per sum, unless one channel has more */
};

/* A work-group's block of out: channels by positions. outputs is 1 for depthwise convolutions. */
typedef struct conv_block {
  int64_t outputs, positions;
} conv_block;

/* How a work-group divides its block of out. */
typedef struct tiling {
  int outputs, lanes, positions; /* per work-item; lanes: work-items side by side along positions */
  int64_t tile_rows, tile_columns; /* tile of out */
  int64_t seen_rows, seen_columns; /* region of x that a tile reads */
  int64_t tiles;                   /* tiles per slice */
  int64_t some; /* channels staged at a time (slices, if depthwise); 0 if not even one fits */
} tiling;

static bool is_depthwise(conv_block block) { return block.outputs == 1; }

static int64_t seen(const conv_dim *dim, int64_t tile) {
  return (tile - 1) * dim->stride + (dim->kernel - 1) * dim->dilation + 1;
}

static int64_t element_bytes(const conv_desc *desc) {
  return desc->x->tensor.type == DTYPE_F64 ? 8 : 4;
}

static int64_t conv_groups_taps_of(const conv_desc *desc) {
  return desc->dims[1].kernel * desc->dims[2].kernel;
}

/* Returns the bytes of local memory per channel. */
static int64_t channel_bytes(const conv_desc *desc, conv_block block, const tiling *tiling) {
  int64_t weights = is_depthwise(block) ? 0 : conv_groups_taps_of(desc) * (block.outputs + 1);
  return (tiling->seen_rows * tiling->seen_columns + weights) * element_bytes(desc);
}

static int64_t count_staged(const cl_recorder *recorder, const conv_desc *desc, conv_block block,
                            const tiling *tiling) {
  const int64_t available = (int64_t)recorder_traits(recorder)->local_memory,
                one = channel_bytes(desc, block, tiling);
  if (is_depthwise(block))
    return desc->dims[0].kernel * one <= available ? desc->dims[0].kernel : 0;
  if (one > available) return 0;
  int64_t most = max_i64(
      min_i64(min_i64(available, STAGE_BYTES) / one, STAGE_TAPS / conv_groups_taps_of(desc)), 1);
  return ceil_div(desc->channels, max_i64(ceil_div(desc->channels, most), 1));
}

/* Returns the best tiling that fits local memory and whose columns are a power of two: it has the
 * fewest tiles, then the smallest input region. */
static tiling conv_groups_plan_tiling(const cl_recorder *recorder, const conv_desc *desc,
                                      conv_block block) {
  const conv_dim *y = &desc->dims[1], *x = &desc->dims[2];
  tiling best = {0};
  for (int64_t columns = 4; columns <= block.positions; columns *= 2) {
    tiling tried = {.tile_rows = block.positions / columns, .tile_columns = columns};
    tried.outputs = block.outputs >= 32 ? 8 : block.outputs > 1 ? 4 : 1;
    tried.lanes = (int)(LOCAL_SIZE * tried.outputs / block.outputs);
    tried.positions = (int)(block.positions / tried.lanes);
    tried.seen_rows = seen(y, tried.tile_rows);
    tried.seen_columns = seen(x, columns);
    tried.tiles = ceil_div(y->out, tried.tile_rows) * ceil_div(x->out, columns);
    tried.some = count_staged(recorder, desc, block, &tried);
    bool fewer = tried.tiles < best.tiles ||
                 (tried.tiles == best.tiles &&
                  tried.seen_rows * tried.seen_columns < best.seen_rows * best.seen_columns);
    if (tried.some > 0 && (best.some == 0 || fewer)) best = tried;
  }
  return best;
}

static int64_t count_blocks(const conv_desc *desc, conv_block block) {
  return is_depthwise(block) ? 1 : ceil_div(desc->outputs, block.outputs);
}

static int64_t count_work_groups(const conv_desc *desc, conv_block block, const tiling *tiling) {
  return tiling->tiles * desc->images * desc->dims[0].out * desc->groups *
         count_blocks(desc, block);
}

/* ---------------------------------------------------------------- variants */

/* parameters: outputs and positions of a block. */
static conv_block conv_groups_block_of(const kernel_variant *variant) {
  return (conv_block){.outputs = variant->parameters[0], .positions = variant->parameters[1]};
}

static bool accepts_block(const void *conv, const kernel_variant *variant) {
  const conv_problem *problem = conv;
  const conv_block block = conv_groups_block_of(variant);
  return is_depthwise(block) <= (problem->desc.channels == 1) &&
         recorder_accepts_work_groups(problem->recorder, count_blocks(&problem->desc, block)) &&
         conv_groups_plan_tiling(problem->recorder, &problem->desc, block).some > 0;
}

/* Estimates the time, to compare blocks, from the products per group (including those beyond the
 * edges of out), the loads per product, and the rounds in which all compute units run a group. */
static double cost_of_block(const void *conv, const kernel_variant *variant) {
  const conv_problem *problem = conv;
  const conv_desc *desc = &problem->desc;
  const conv_block block = conv_groups_block_of(variant);
  if (!accepts_block(conv, variant)) return ON_REQUEST;
  const tiling tiling = conv_groups_plan_tiling(problem->recorder, desc, block);
  const int64_t made = is_depthwise(block) ? desc->outputs : block.outputs;
  const double products = (double)(made * block.positions * desc->channels),
               loads = 1.0 / tiling.outputs + 1.0 / tiling.positions;
  return products * (1 + loads) *
         (double)ceil_div(count_work_groups(desc, block, &tiling),
                          recorder_traits(problem->recorder)->compute_units);
}

static const kernel_variant block_variants[] = {
    {"32x64", accepts_block, .cost_of = cost_of_block, .parameters = {32, 64}},
    {"64x32", accepts_block, .cost_of = cost_of_block, .parameters = {64, 32}},
    {"16x64", accepts_block, .cost_of = cost_of_block, .parameters = {16, 64}},
    {"8x128", accepts_block, .cost_of = cost_of_block, .parameters = {8, 128}},
    {"4x256", accepts_block, .cost_of = cost_of_block, .parameters = {4, 256}},
    {"1x64", accepts_block, .cost_of = cost_of_block, .parameters = {1, 64}},
    {"1x256", accepts_block, .cost_of = cost_of_block, .parameters = {1, 256}}};

static variants blocks_for(const conv_problem *problem) {
  return (variants){.family = "conv groups",
                    .rows = block_variants,
                    .n = sizeof block_variants / sizeof *block_variants,
                    .problem = problem};
}

bool conv_groups_usable(const void *conv, const kernel_variant *variant) {
  const conv_problem *problem = conv;
  const conv_desc *desc = &problem->desc;
  const dtype t = desc->x->tensor.type;
  const variants blocks = blocks_for(problem);
  (void)variant;
  return !recorder_traits(problem->recorder)->is_cpu && !desc->transposed && dtype_is_float(t) &&
         desc->out->tensor.type == t && desc->channels > 0 &&
         recorder_accepts_work_groups(problem->recorder, desc->groups) &&
         variant_by_cost(&blocks) != NULL;
}

/* ---------------------------------------------------------------- launches */

static kernel_params conv_groups_kernel_of(const conv_desc *desc) {
  const conv_dim *z = &desc->dims[0], *y = &desc->dims[1], *x = &desc->dims[2];
  return (kernel_params){.kernel_z = z->kernel,
                         .kernel_y = y->kernel,
                         .kernel_x = x->kernel,
                         .stride_z = z->stride,
                         .stride_y = y->stride,
                         .stride_x = x->stride,
                         .pad_z = z->padding,
                         .pad_y = y->padding,
                         .pad_x = x->padding,
                         .dilation_z = z->dilation,
                         .dilation_y = y->dilation,
                         .dilation_x = x->dilation};
}

static volumes_params volumes_of(const conv_desc *desc, const tiling *tiling) {
  const conv_dim *z = &desc->dims[0], *y = &desc->dims[1], *x = &desc->dims[2];
  return (volumes_params){.groups = desc->groups,
                          .n_outputs = desc->outputs,
                          .channels = desc->channels,
                          .in_depth = z->in,
                          .in_rows = y->in,
                          .in_columns = x->in,
                          .out_depth = z->out,
                          .out_rows = y->out,
                          .out_columns = x->out,
                          .tile_rows = tiling->tile_rows,
                          .tile_columns = tiling->tile_columns,
                          .seen_rows = tiling->seen_rows,
                          .seen_columns = tiling->seen_columns};
}

static int64_t channels_of_split(const conv_desc *desc, const tiling *tiling, int64_t n_splits) {
  return ceil_div(ceil_div(desc->channels, n_splits), tiling->some) * tiling->some;
}

/* Returns the number of splits of a group's channels. */
static int64_t conv_groups_count_splits(cl_recorder *recorder, const conv_desc *desc,
                                        conv_block block, const tiling *tiling,
                                        const tuning_key *key) {
  enum { OF_A_UNIT = 8 }; /* groups per compute unit */
  if (is_depthwise(block)) return 1;
  const int64_t n =
      choose_splits(recorder, "conv parts", key, count_work_groups(desc, block, tiling), OF_A_UNIT,
                    desc->channels / tiling->some, tensor_numel(&desc->out->tensor));
  return ceil_div(desc->channels, channels_of_split(desc, tiling, n)); /* leaves no split empty */
}

/* Returns a product whose result has the shape of out: (images, channels, positions). */
static matmul_desc conv_groups_product_of(const conv_desc *desc) {
  matmul_desc product = {.bias = desc->bias, .out = desc->out, .bias_m = 1, .alpha = 1, .beta = 1};
  product.batches = desc->images;
  product.m = desc->groups * desc->outputs;
  product.n = desc->dims[0].out * desc->dims[1].out * desc->dims[2].out;
  return product;
}

static void conv_groups_take_arguments(launch *launch, const conv_desc *desc, arg_buffer weight,
                                       conv_block block, const tiling *tiling, int64_t n_splits) {
  const size_t bytes = (size_t)(tiling->some * element_bytes(desc));
  const arg_local cells = local_arg((size_t)(tiling->seen_rows * tiling->seen_columns) * bytes);
  if (is_depthwise(block))
    launch_args(launch, &(conv_groups_depthwise_args){.x = buffer_arg(desc->x),
                                                      .weight = weight,
                                                      .bias = optional_arg(desc->bias),
                                                      .out = buffer_arg(desc->out),
                                                      .volumes = volumes_of(desc, tiling),
                                                      .kernel = conv_groups_kernel_of(desc),
                                                      .cells = cells});
  else
    launch_args(launch,
                &(conv_groups_args){
                    .x = buffer_arg(desc->x),
                    .weight = weight,
                    .bias = optional_arg(desc->bias),
                    .out = buffer_arg(desc->out),
                    .splits = n_splits > 1 ? scratch_arg(0) : absent_arg(),
                    .n_splits = n_splits,
                    .split_channels = channels_of_split(desc, tiling, n_splits),
                    .split_size = tensor_numel(&desc->out->tensor),
                    .some = tiling->some,
                    .volumes = volumes_of(desc, tiling),
                    .kernel = conv_groups_kernel_of(desc),
                    .cells = cells,
                    .factors = local_arg((size_t)(conv_groups_taps_of(desc) * (block.outputs + 1)) *
                                         bytes)});
}

clave_status conv_groups(const void *conv) {
  const conv_problem *problem = conv;
  cl_recorder *recorder = problem->recorder;
  const conv_desc *desc = &problem->desc;
  const tuning_key key = conv_key(recorder, desc);
  const variants blocks = blocks_for(problem);
  const conv_block block = conv_groups_block_of(recorder_choose(recorder, &blocks, &key));
  arg_buffer weight;
  dtype weight_type;
  TRY(conv_weight(problem, 0, &weight, &weight_type));
  const tiling tiling = conv_groups_plan_tiling(recorder, desc, block);
  /* splits would overlap a weight in scratch memory */
  const int64_t n_splits = weight.value.kind == VALUE_SCRATCH
                               ? 1
                               : conv_groups_count_splits(recorder, desc, block, &tiling, &key);
  if (n_splits > 1)
    TRY(begin_splits(recorder, n_splits, tensor_numel(&desc->out->tensor), desc->x->tensor.type));
  launch launch;
  launch_begin(&launch, recorder, problem->node);
  launch_dtype(&launch, "X_TYPE", desc->x->tensor.type);
  launch_dtype(&launch, "W_TYPE", weight_type);
  launch_compute(&launch, desc->x->tensor.type);
  launch_define(&launch, "HAS_BIAS", desc->bias != NULL);
  launch_define(&launch, "LANES", tiling.lanes);
  launch_define(&launch, "POSITIONS", tiling.positions);
  if (!is_depthwise(block)) launch_define(&launch, "OUTPUTS", tiling.outputs);
  launch_define(&launch, "IN_SPLITS", n_splits > 1);
  conv_groups_take_arguments(&launch, desc, weight, block, &tiling, n_splits);
  if (n_splits == 1) launch_epilogue(&launch);
  size_t tiles = (size_t)(tiling.tiles * desc->images * desc->dims[0].out);
  size_t global[3] = {tiles * LOCAL_SIZE, (size_t)count_blocks(desc, block),
                      (size_t)(desc->groups * n_splits)},
         local[3] = {LOCAL_SIZE, 1, 1};
  TRY(launch_run(&launch, 3, global, local));
  const matmul_desc as_product = conv_groups_product_of(desc);
  return n_splits > 1 ? add_splits(recorder, problem->node, &as_product, n_splits) : NULL;
}
