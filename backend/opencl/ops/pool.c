/* Pooling: kernels_cl/pool.cl. On CPUs, maxima without indices use pool_rows.cl. */
#include "ops/pool.h"

#include "backend/opencl/ops/families.h"
#include "opencl_ops.h"

enum { CHUNK = 128, REACH = 64 }; /* pool_rows: elements at a time; maximum columns of a window */

static void begin_pool(launch *launch, cl_recorder *recorder, const node *node,
                       const pool_desc *desc) {
  launch_begin(launch, recorder, node);
  launch_dtype(launch, "X_TYPE", desc->x->tensor.type);
  launch_dtype(launch, "OUT_TYPE", desc->out->tensor.type);
  launch_compute(launch, desc->x->tensor.type);
  launch_define(launch, "BY_ROW", recorder_traits(recorder)->is_cpu);
}

/* Returns the number of rows of out on a CPU; else the number of its elements. */
static int64_t opencl_pool_count_items(const cl_recorder *recorder, const pool_desc *desc) {
  return desc->planes * desc->size[0] * desc->size[1] *
         (recorder_traits(recorder)->is_cpu ? 1 : desc->size[2]);
}

static planes_params planes_of(const pool_desc *desc, int64_t items) {
  return (planes_params){.items = items,
                         .depth = desc->in[0],
                         .rows = desc->in[1],
                         .columns = desc->in[2],
                         .out_depth = desc->size[0],
                         .out_rows = desc->size[1],
                         .out_columns = desc->size[2]};
}

static window_params opencl_pool_window_of(const pool_desc *desc) {
  return (window_params){.kernel_z = desc->kernel[0],
                         .kernel_y = desc->kernel[1],
                         .kernel_x = desc->kernel[2],
                         .stride_z = desc->stride[0],
                         .stride_y = desc->stride[1],
                         .stride_x = desc->stride[2],
                         .pad_z = desc->padding[0],
                         .pad_y = desc->padding[1],
                         .pad_x = desc->padding[2]};
}

static void pass_max(launch *launch, const pool_desc *desc, int64_t items) {
  launch_args(launch, &(pool_max_args){.x = buffer_arg(desc->x),
                                       .out = buffer_arg(desc->out),
                                       .indices = optional_arg(desc->indices),
                                       .planes = planes_of(desc, items),
                                       .window = opencl_pool_window_of(desc),
                                       .dilation_z = desc->dilation[0],
                                       .dilation_y = desc->dilation[1],
                                       .dilation_x = desc->dilation[2]});
}

static void pass_average(launch *launch, const pool_desc *desc, int64_t items) {
  launch_args(launch, &(pool_average_args){.x = buffer_arg(desc->x),
                                           .out = buffer_arg(desc->out),
                                           .planes = planes_of(desc, items),
                                           .window = opencl_pool_window_of(desc),
                                           .divisor = desc->divisor});
}

/* True if max_rows can compute the maxima. It does not support empty windows of integers, whose
 * result is 0. Without dilation, windows of a nonempty input are never empty. */
static bool opencl_pool_accepts_rows(const cl_recorder *recorder, const pool_desc *desc) {
  for (int d = 0; d < SPATIAL_DIMS; d++)
    if ((desc->dilation[d] != 1 || desc->in[d] == 0) && dtype_is_int(desc->x->tensor.type))
      return false;
  return recorder_traits(recorder)->is_cpu && !desc->average && !desc->indices &&
         desc->stride[2] <= 2 && (desc->kernel[2] - 1) * desc->dilation[2] < REACH;
}

static clave_status max_rows(cl_recorder *recorder, const node *node, const pool_desc *desc) {
  const int64_t items = desc->planes * desc->size[0] * desc->size[1];
  launch launch;
  launch_begin(&launch, recorder, node);
  launch_dtype(&launch, "X_TYPE", desc->x->tensor.type);
  launch_dtype(&launch, "OUT_TYPE", desc->out->tensor.type);
  launch_compute(&launch, desc->x->tensor.type);
  launch_define(&launch, "STRIDE", (int)desc->stride[2]);
  launch_define(&launch, "CHUNK", CHUNK);
  launch_define(&launch, "REACH", REACH);
  launch_args(&launch, &(pool_rows_args){.x = buffer_arg(desc->x),
                                         .out = buffer_arg(desc->out),
                                         .planes = planes_of(desc, items),
                                         .window = opencl_pool_window_of(desc),
                                         .dilation_z = desc->dilation[0],
                                         .dilation_y = desc->dilation[1],
                                         .dilation_x = desc->dilation[2]});
  const int64_t rows = desc->kernel[0] * desc->kernel[1];
  return launch_loops(&launch, items, 1, rows * desc->size[2] * desc->stride[2]);
}

clave_status opencl_pool(cl_recorder *recorder, const node *node) {
  pool_desc desc;
  describe_pool(node, &desc);
  if (opencl_pool_accepts_rows(recorder, &desc)) return max_rows(recorder, node, &desc);
  int64_t items = opencl_pool_count_items(recorder, &desc),
          reads = desc.kernel[0] * desc.kernel[1] * desc.kernel[2];
  launch launch;
  begin_pool(&launch, recorder, node, &desc);
  launch_define(&launch, "HAS_INDICES", desc.indices != NULL);
  launch_define(&launch, "COUNT_PAD", desc.average && desc.count_include_pad);
  (desc.average ? pass_average : pass_max)(&launch, &desc, items);
  return launch_loops(&launch, items, 1,
                      2 * reads * (tensor_numel(&desc.out->tensor) / max_i64(items, 1)));
}

clave_status opencl_adaptive_pool(cl_recorder *recorder, const node *node) {
  pool_desc desc;
  describe_adaptive_pool(node, &desc);
  if (pool_is_mean(&desc))
    return launch_means(recorder, node, desc.x, desc.out, desc.planes,
                        desc.in[0] * desc.in[1] * desc.in[2]);
  int64_t items = opencl_pool_count_items(recorder, &desc);
  launch launch;
  begin_pool(&launch, recorder, node, &desc);
  launch_define(&launch, "MAX", !desc.average);
  launch_define(&launch, "HAS_INDICES", desc.indices != NULL);
  launch_args(&launch, &(pool_adaptive_args){.x = buffer_arg(desc.x),
                                             .out = buffer_arg(desc.out),
                                             .indices = optional_arg(desc.indices),
                                             .planes = planes_of(&desc, items)});
  return launch_loops(&launch, items, 1, items ? tensor_numel(&desc.x->tensor) / items : 1);
}
