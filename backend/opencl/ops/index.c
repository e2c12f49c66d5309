/* Reading by index tensors: index_select, gather, index, ravel_index; kernels_cl/index.cl. */
#include "ops/index.h"

#include "backend/opencl/ops/encoded.h"
#include "backend/opencl/ops/families.h"
#include "backend/opencl/ops/gemm/panel_rows.h"
#include "opencl_ops.h"

enum { CPU_CHUNK = 64 };

static int64_t count_dense(const tensor *tensor) {
  return tensor->rank == 0 || (tensor->rank == 1 && tensor->strides[0] == 1) ? tensor_numel(tensor)
                                                                             : 0;
}

static int kinds_of(const pick_desc *desc) {
  int kinds = 0;
  for (int i = 0; i < desc->n; i++) kinds |= (desc->indices[i]->tensor.type == DTYPE_I64) << i;
  return kinds;
}

static arg_buffer index_at(const pick_desc *desc, int i) {
  return optional_arg(i < desc->n ? desc->indices[i] : NULL);
}

/* Adds the dimensions of x's front or back, innermost first, without dimensions of size 1: an
 * index8 has room only for the others. */
static int add_dims(const tensor *part, int at, arg_index8 *dims, arg_index8 *strides) {
  for (int i = part->rank - 1; i >= 0; i--) {
    if (part->dims[i] == 1) continue;
    dims->v[at] = part->dims[i];
    strides->v[at++] = part->strides[i];
  }
  return at;
}

static void list_dims(const pick_desc *desc, arg_index8 *dims, arg_index8 *strides) {
  *dims = (arg_index8){{1, 1, 1, 1, 1, 1, 1, 1}};
  *strides = (arg_index8){{0}};
  add_dims(&desc->front, add_dims(&desc->back, 0, dims, strides), dims, strides);
  for (int i = 0; i < desc->n; i++) {
    dims->v[7 - i] = desc->sizes[i];
    strides->v[7 - i] = desc->strides[i];
  }
}

static indices_params indices_of(const pick_desc *desc) {
  arg_index8 dims, strides;
  list_dims(desc, &dims, &strides);
  return (indices_params){.pick_dims = dims_arg(&desc->index[0]),
                          .dims = dims,
                          .strides = strides,
                          .kinds = kinds_of(desc),
                          .i0 = index_at(desc, 0),
                          .i0_strides = strides_arg(&desc->index[0]),
                          .i1 = index_at(desc, 1),
                          .i1_strides = strides_arg(&desc->index[1]),
                          .i2 = index_at(desc, 2),
                          .i2_strides = strides_arg(&desc->index[2]),
                          .i3 = index_at(desc, 3),
                          .i3_strides = strides_arg(&desc->index[3]),
                          .i4 = index_at(desc, 4),
                          .i4_strides = strides_arg(&desc->index[4]),
                          .i5 = index_at(desc, 5),
                          .i5_strides = strides_arg(&desc->index[5]),
                          .i6 = index_at(desc, 6),
                          .i6_strides = strides_arg(&desc->index[6]),
                          .i7 = index_at(desc, 7),
                          .i7_strides = strides_arg(&desc->index[7])};
}

static clave_status opencl_index_launch_pick(cl_recorder *recorder, const node *node,
                                             const pick_desc *desc) {
  int64_t n_back = tensor_numel(&desc->back);
  int chunk = recorder_traits(recorder)->is_cpu ? CPU_CHUNK : 1;
  int64_t items = tensor_numel(&desc->front) * desc->n_picks * ceil_div(n_back, chunk);
  launch launch;
  launch_begin(&launch, recorder, node);
  launch_dtype(&launch, "TYPE", moved_type(desc->x->tensor.type));
  launch_define(&launch, "CHUNK", chunk);
  launch_define(&launch, "DENSE", count_dense(&desc->back) > 0);
  launch_define(&launch, "N_INDICES", desc->n);
  launch_define(&launch, "WRAP", desc->wrap);
  launch_args(&launch, &(index_pick_args){.x = buffer_arg(desc->x),
                                          .out = buffer_arg(desc->out),
                                          .items = items,
                                          .n_picks = desc->n_picks,
                                          .n_back = n_back,
                                          .indices = indices_of(desc)});
  return launch_loops(&launch, items, 1, min_i64(n_back, chunk));
}

clave_status opencl_index_select(cl_recorder *recorder, const node *node) {
  pick_desc desc;
  bool done;
  TRY(opencl_panel_rows(recorder, node, &done));
  if (done) return NULL;
  describe_index_select(node, &desc);
  return desc.x->tensor.encoding.kind ? opencl_pick_rows(recorder, node)
                                      : opencl_index_launch_pick(recorder, node, &desc);
}

clave_status opencl_index(cl_recorder *recorder, const node *node) {
  pick_desc desc;
  describe_index(node, &desc);
  return opencl_index_launch_pick(recorder, node, &desc);
}

clave_status opencl_gather(cl_recorder *recorder, const node *node) {
  gather_desc desc;
  describe_gather(node, &desc);
  launch launch;
  launch_begin(&launch, recorder, node);
  launch_dtype(&launch, "TYPE", moved_type(desc.x->tensor.type));
  launch_dtype(&launch, "INDEX_TYPE", desc.index->tensor.type);
  launch_args(&launch, &(index_gather_args){.x = buffer_arg(desc.x),
                                            .index = buffer_arg(desc.index),
                                            .out = buffer_arg(desc.out),
                                            .dims = dims_arg(&desc.x_layout),
                                            .x_strides = strides_arg(&desc.x_layout),
                                            .index_strides = strides_arg(&desc.index_layout),
                                            .items = desc.n,
                                            .size = desc.size,
                                            .step = desc.step});
  return launch_loops(&launch, desc.n, 1, 8);
}

clave_status opencl_ravel_index(cl_recorder *recorder, const node *node) {
  pick_desc desc;
  describe_ravel_index(node, &desc);
  launch launch;
  launch_begin(&launch, recorder, node);
  launch_define(&launch, "N_INDICES", desc.n);
  launch_define(&launch, "WRAP", desc.wrap);
  if (desc.sizes[0] > 0 && desc.strides[0] > INT32_MAX / desc.sizes[0]) launch_wide(&launch);
  launch_args(&launch, &(index_ravel_args){.out = buffer_arg(desc.out),
                                           .items = desc.n_picks,
                                           .indices = indices_of(&desc)});
  return launch_loops(&launch, desc.n_picks, 1, 8);
}
