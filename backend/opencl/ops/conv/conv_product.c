/* Convolutions with kernels of one element, stride 1 and no padding, as matrix products. */
#include "backend/opencl/ops/conv/conv.h"

#include "backend/opencl/ops/families.h"
#include "backend/opencl/ops/gemm/gemm.h"

static bool is_pointwise_dim(const conv_dim *dim) {
  return dim->kernel == 1 && dim->stride == 1 && dim->padding == 0 && dim->out == dim->in;
}

static bool is_product(cl_recorder *recorder, const conv_desc *desc) {
  const dtype t = desc->x->tensor.type;
  const gemm gemm = {.recorder = recorder, .desc = {.k = desc->channels}};
  if (desc->weight->tensor.encoding.kind && !gemm_packed_usable(&gemm)) return false;
  return !desc->transposed && desc->groups == 1 && desc->channels > 0 && dtype_is_float(t) &&
         t != DTYPE_F64 && is_pointwise_dim(&desc->dims[0]) && is_pointwise_dim(&desc->dims[1]) &&
         is_pointwise_dim(&desc->dims[2]);
}

bool conv_product_usable(const void *conv, const kernel_variant *variant) {
  const conv_problem *problem = conv;
  (void)variant;
  return is_product(problem->recorder, &problem->desc);
}

static int64_t conv_product_count_positions(const conv_desc *desc) {
  return desc->dims[0].in * desc->dims[1].in * desc->dims[2].in;
}

/* Returns the product, for each image, of the weight (outputs, channels) and its planes (channels,
 * positions). The product points to *weight. */
static gemm planes_product(cl_recorder *recorder, const node *node, const conv_desc *desc,
                           bound_tensor *weight) {
  const int64_t positions = conv_product_count_positions(desc);
  gemm gemm = {.recorder = recorder, .node = node};
  *weight = *desc->weight;
  if (weight->tensor.encoding.kind) {
    gemm.codes = desc->weight;
    weight->tensor.encoding = (encoding){0};
    weight->tensor.type = DTYPE_F32;
  }
  matmul_desc *product = &gemm.desc;
  *product = (matmul_desc){
      .k = desc->channels, .bias = desc->bias, .out = desc->out, .alpha = 1, .beta = 1};
  product->a = weight;
  product->b = desc->x;
  product->m = desc->outputs;
  product->n = product->b_k = positions;
  product->a_m = desc->channels;
  product->a_k = product->b_n = product->bias_m = 1;
  product->batches = desc->images;
  product->batch_a = product->batch_bias = (tensor){.rank = 1, .dims = {desc->images}};
  product->batch_b =
      (tensor){.rank = 1, .dims = {desc->images}, .strides = {desc->channels * positions}};
  return gemm;
}

/* Returns the product of images of one position (images, channels) by the weight's transpose. */
static gemm images_product(cl_recorder *recorder, const node *node, const conv_desc *desc) {
  gemm gemm = {.recorder = recorder, .node = node};
  matmul_desc *product = &gemm.desc;
  *product = (matmul_desc){
      .k = desc->channels, .bias = desc->bias, .out = desc->out, .alpha = 1, .beta = 1};
  product->a = desc->x;
  product->b = desc->weight;
  product->m = desc->images;
  product->n = desc->outputs;
  product->a_m = product->b_n = desc->channels;
  product->a_k = product->b_k = product->bias_n = product->batches = 1;
  return gemm;
}

clave_status conv_product(const void *conv) {
  const conv_problem *problem = conv;
  const conv_desc *desc = &problem->desc;
  bound_tensor weight;
  const bool by_images =
      conv_product_count_positions(desc) == 1 && !desc->weight->tensor.encoding.kind;
  const gemm gemm = by_images ? images_product(problem->recorder, problem->node, desc)
                              : planes_product(problem->recorder, problem->node, desc, &weight);
  return gemm_record(&gemm);
}

/* ---------------------------------------------------------------- planes read in place */

enum {
  CACHED_X = 32 << 10,       /* bytes of x that stay in the first-level cache beside a panel */
  CACHED_WEIGHT = 256 << 10, /* bytes of the weight that stay in the second-level cache */
  TASK_PANELS = 8,           /* maximum columns per work-item, in tiles */
  TASKS = 4, /* minimum work-items per core, so that all cores finish at about the same time */
  TASK_WORK = 32 * 1024 /* minimum multiplications of a work-item with few panels */
};

static int64_t tile_columns(const cl_recorder *recorder) {
  return 2 * (int64_t)recorder_traits(recorder)->vector_width;
}

/* The division of the product into work-items. */
typedef struct cutting {
  int64_t columns, block; /* columns per work-item; columns per block of cached inputs */
  int64_t panels, each;   /* panels of the weight; panels per work-item */
} cutting;

/* Divides the product into work-items for all cores, whose inputs and weights fit in caches. */
static cutting conv_product_cut(cl_recorder *recorder, const conv_desc *desc) {
  const int64_t tile = tile_columns(recorder), rows = gemm_panel_rows(recorder_traits(recorder)),
                positions = conv_product_count_positions(desc),
                wanted = TASKS * (int64_t)recorder_traits(recorder)->compute_units;
  cutting cutting = {.panels = ceil_div(desc->outputs, rows)};
  cutting.block = CACHED_X / (int64_t)sizeof(float) / desc->channels / tile * tile;
  cutting.block = min_i64(max_i64(cutting.block, tile), TASK_PANELS * tile);
  const int64_t most = ceil_div(TASK_PANELS * tile, cutting.block),
                across = ceil_div(positions, most * cutting.block);
  cutting.columns = ceil_div(ceil_div(positions, across), cutting.block) * cutting.block;
  int64_t down = ceil_div(desc->outputs * desc->channels * (int64_t)sizeof(float), CACHED_WEIGHT);
  if (desc->images * across < wanted) {
    const int64_t work = desc->outputs * desc->channels * min_i64(cutting.columns, positions);
    down = max_i64(down, min_i64(ceil_div(2 * wanted, desc->images * across), work / TASK_WORK));
  }
  cutting.each = ceil_div(cutting.panels, max_i64(1, min_i64(down, cutting.panels)));
  return cutting;
}

bool conv_planes_usable(const void *conv, const kernel_variant *variant) {
  const conv_problem *problem = conv;
  const conv_desc *desc = &problem->desc;
  (void)variant;
  return recorder_traits(problem->recorder)->is_cpu && is_product(problem->recorder, desc) &&
         desc->x->tensor.type == DTYPE_F32 && desc->out->tensor.type == DTYPE_F32 &&
         desc->weight->is_constant &&
         conv_product_count_positions(desc) >= tile_columns(problem->recorder) / 2;
}

clave_status conv_planes(const void *conv) {
  const conv_problem *problem = conv;
  cl_recorder *recorder = problem->recorder;
  const node *node = problem->node;
  const conv_desc *desc = &problem->desc;
  bound_tensor weight;
  arg_buffer panels;
  const gemm gemm = planes_product(recorder, node, desc, &weight);
  const cutting cutting = conv_product_cut(recorder, desc);
  TRY(gemm_a_panels(&gemm, 0, &panels));
  launch launch;
  launch_begin(&launch, recorder, node);
  launch_define(&launch, "WIDTH", (int)recorder_traits(recorder)->vector_width);
  launch_define(&launch, "HAS_BIAS", desc->bias != NULL);
  launch_args(&launch, &(conv_pointwise_args){.x = buffer_arg(desc->x),
                                              .weight = panels,
                                              .bias = optional_arg(desc->bias),
                                              .out = buffer_arg(desc->out),
                                              .channels = desc->channels,
                                              .n_outputs = desc->outputs,
                                              .positions = conv_product_count_positions(desc),
                                              .columns_each = cutting.columns,
                                              .block = cutting.block,
                                              .panels_each = cutting.each});
  launch_epilogue(&launch);
  size_t global[3] = {(size_t)ceil_div(conv_product_count_positions(desc), cutting.columns),
                      (size_t)ceil_div(cutting.panels, cutting.each), (size_t)desc->images},
         local[3] = {1, 1, 1};
  return launch_run(&launch, 3, global, local);
}
