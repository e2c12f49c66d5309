/* Scatter: writes at positions that an index tensor holds; kernels_cl/scatter.cl. */
#include "backend/opencl/ops/scatter.h"

#include "opencl_ops.h"

enum {
  CPU_CHUNK = 64,
  GPU_ITEMS = 1 << 14,
  MIN_SORTED = 1024,   /* minimum entries per line for which a sort is faster */
  MAX_SORTED = 1 << 24 /* maximum entries of all lines, which bounds the sort's scratch memory */
};

static bool is_dense(const tensor *tensor) {
  return tensor->rank == 0 || (tensor->rank == 1 && tensor->strides[0] == 1);
}

/* Returns the number of ranges of out. Each work-item writes one range and reads all indices. */
static int64_t opencl_scatter_count_shares(const cl_recorder *recorder, int64_t items,
                                           int64_t size) {
  const device_traits *traits = recorder_traits(recorder);
  int64_t wanted =
      ceil_div(traits->is_cpu ? (int64_t)traits->compute_units : GPU_ITEMS, max_i64(items, 1));
  return max_i64(1, min_i64(wanted, size));
}

static void opencl_scatter_begin_launch(launch *launch, cl_recorder *recorder, const node *node,
                                        const scatter_desc *desc) {
  bool assign = desc->kind == IR_SCATTER_KIND_ASSIGN;
  launch_begin(launch, recorder, node);
  launch_dtype(launch, "TYPE",
               assign ? moved_type(desc->out->tensor.type) : desc->out->tensor.type);
  launch_dtype(launch, "INDEX_TYPE", desc->index.tensor.type);
  if (!assign) launch_compute(launch, desc->out->tensor.type);
  launch_define(launch, "KIND", (int)desc->kind);
}

static scatter_params opencl_scatter_arguments_of(const scatter_desc *desc, int64_t items) {
  return (scatter_params){.source = buffer_arg(desc->source),
                          .index = buffer_arg(&desc->index),
                          .out = buffer_arg(desc->out),
                          .front_dims = dims_arg(&desc->front[SCATTER_SOURCE]),
                          .source_front = strides_arg(&desc->front[SCATTER_SOURCE]),
                          .index_front = strides_arg(&desc->front[SCATTER_INDEX]),
                          .out_front = strides_arg(&desc->front[SCATTER_OUT]),
                          .back_dims = dims_arg(&desc->back[SCATTER_SOURCE]),
                          .source_back = strides_arg(&desc->back[SCATTER_SOURCE]),
                          .out_back = strides_arg(&desc->back[SCATTER_OUT]),
                          .items = items,
                          .n = desc->n,
                          .n_back = tensor_numel(&desc->back[SCATTER_OUT]),
                          .size = desc->size,
                          .source_stride = desc->stride[SCATTER_SOURCE],
                          .index_stride = desc->stride[SCATTER_INDEX],
                          .out_stride = desc->stride[SCATTER_OUT]};
}

/* True if F16 or BF16 elements are combined in F32, in scratch memory with the layout of out. */
static bool is_wide(const scatter_desc *desc) {
  bool rounds = desc->kind == IR_SCATTER_KIND_ADD || desc->kind == IR_SCATTER_KIND_MUL;
  return rounds && (desc->out->tensor.type == DTYPE_F16 || desc->out->tensor.type == DTYPE_BF16);
}

static clave_status launch_walk(cl_recorder *recorder, const node *node, const scatter_desc *desc) {
  int chunk = recorder_traits(recorder)->is_cpu ? CPU_CHUNK : 1;
  int64_t n_back = tensor_numel(&desc->back[SCATTER_OUT]);
  int64_t rows = tensor_numel(&desc->front[SCATTER_OUT]) * ceil_div(n_back, chunk),
          shares = opencl_scatter_count_shares(recorder, rows, desc->size);
  launch launch;
  if (is_wide(desc))
    TRY(recorder_scratch(recorder, (size_t)tensor_numel(&desc->out->tensor) * sizeof(float)));
  opencl_scatter_begin_launch(&launch, recorder, node, desc);
  launch_define(&launch, "IN_F32", is_wide(desc));
  launch_define(&launch, "WRAP", desc->wrap);
  launch_define(&launch, "CHUNK", chunk);
  launch_define(&launch, "DENSE",
                is_dense(&desc->back[SCATTER_SOURCE]) && is_dense(&desc->back[SCATTER_OUT]));
  launch_args(&launch,
              &(scatter_walk_args){.scatter = opencl_scatter_arguments_of(desc, rows * shares),
                                   .wide = is_wide(desc) ? scratch_arg(0) : absent_arg(),
                                   .shares = shares});
  return launch_loops(&launch, rows * shares, 1, desc->n * min_i64(n_back, chunk));
}

static clave_status launch_segments(cl_recorder *recorder, const node *node,
                                    const scatter_desc *desc) {
  sorted_positions places;
  TRY(launch_sort(recorder, node, &desc->index, desc->axis, &places));
  int64_t items =
      tensor_numel(&desc->front[SCATTER_OUT]) * desc->n * tensor_numel(&desc->back[SCATTER_OUT]);
  launch launch;
  opencl_scatter_begin_launch(&launch, recorder, node, desc);
  if (items > INT32_MAX) launch_wide(&launch);
  launch_args(&launch, &(scatter_segments_args){.scatter = opencl_scatter_arguments_of(desc, items),
                                                .places = scratch_arg(places.offset),
                                                .pitch = places.pitch,
                                                .place_stride = places.stride});
  return launch_loops(&launch, items, 1, 8);
}

/* True on a GPU that few lines cannot occupy: a sort has one work-item per entry. */
static bool wants_sort(const cl_recorder *recorder, const scatter_desc *desc) {
  int64_t front = tensor_numel(&desc->front[SCATTER_OUT]),
          rows = front * tensor_numel(&desc->back[SCATTER_OUT]);
  if (recorder_traits(recorder)->is_cpu || desc->wrap || desc->n < MIN_SORTED) return false;
  return rows > 0 && rows < GPU_ITEMS && desc->n <= MAX_SORTED / front;
}

clave_status launch_scatter(cl_recorder *recorder, const node *node, const scatter_desc *desc) {
  return wants_sort(recorder, desc) ? launch_segments(recorder, node, desc)
                                    : launch_walk(recorder, node, desc);
}

clave_status opencl_scatter(cl_recorder *recorder, const node *node) {
  scatter_desc desc;
  describe_scatter(node, &desc);
  return launch_scatter(recorder, node, &desc);
}
