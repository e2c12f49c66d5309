/* Normalisation: kernels_cl/norm.cl. Operands are dense. */
#include "ops/norm.h"

#include "backend/opencl/ops/families.h"
#include "backend/opencl/ops/splits.h"
#include "opencl_ops.h"
#include "ops/epilogue.h"

static row_walk opencl_norm_choose_walk(cl_recorder *recorder, const node *node,
                                        const norm_desc *desc) {
  const bool is_cpu = recorder_traits(recorder)->is_cpu;
  const row_walk by_rule = {!is_cpu && desc->row >= 32 ? LOCAL_SIZE : 1, is_cpu ? 16 : 1};
  return choose_row_walk(recorder, "norm", node, &desc->x->tensor, desc->rows, desc->row, by_rule);
}

/* The kernel has variants with and without a weight or bias. */
static void begin_norm(launch *launch, cl_recorder *recorder, const node *node,
                       const norm_desc *desc, row_walk walk, bool rms) {
  const bound_tensor *param = desc->weight ? desc->weight : desc->bias;
  launch_begin(launch, recorder, node);
  launch_dtype(launch, "X_TYPE", desc->x->tensor.type);
  launch_dtype(launch, "OUT_TYPE", desc->out->tensor.type);
  launch_dtype(launch, "PARAM_TYPE", param ? param->tensor.type : desc->x->tensor.type);
  launch_compute(launch, desc->x->tensor.type);
  launch_define(launch, "RMS", rms);
  launch_define(launch, "HAS_WEIGHT", desc->weight != NULL);
  launch_define(launch, "HAS_BIAS", desc->bias != NULL);
  launch_define(launch, "W", walk.width);
  launch_define(launch, "TEAM", walk.team);
}

static norm_params opencl_norm_arguments_of(const norm_desc *desc) {
  return (norm_params){.x = buffer_arg(desc->x),
                       .weight = optional_arg(desc->weight),
                       .bias = optional_arg(desc->bias),
                       .out = buffer_arg(desc->out),
                       .rows = desc->row ? desc->rows : 0,
                       .eps = desc->eps};
}

static clave_status run_norm(launch *launch, const norm_desc *desc, row_walk walk, int64_t work) {
  return launch_rows(launch, desc->row ? desc->rows : 0, work, walk.team);
}

static clave_status norm_rows(cl_recorder *recorder, const node *node, const norm_desc *desc,
                              bool rms) {
  const row_walk walk = opencl_norm_choose_walk(recorder, node, desc);
  launch launch;
  begin_norm(&launch, recorder, node, desc, walk, rms);
  launch_args(&launch, &(norm_rows_args){.norm = opencl_norm_arguments_of(desc), .n = desc->row});
  launch_epilogue(&launch);
  return run_norm(&launch, desc, walk, 4 * desc->row);
}

clave_status opencl_layer_norm(cl_recorder *recorder, const node *node) {
  norm_desc desc;
  describe_layer_norm(node, &desc);
  return norm_rows(recorder, node, &desc, false);
}

clave_status opencl_rms_norm(cl_recorder *recorder, const node *node) {
  norm_desc desc;
  describe_rms_norm(node, &desc);
  return norm_rows(recorder, node, &desc, true);
}

/* Few groups of channels mean few, long rows. A separate team adds each of their splits. */
static int64_t opencl_norm_count_splits(cl_recorder *recorder, const norm_desc *desc) {
  enum { LEAST = 1024, OF_A_UNIT = 8 }; /* elements per split; teams per compute unit */
  if (recorder_traits(recorder)->is_cpu) return 1;
  tuning_key key = recorder_key(recorder);
  tuning_key_text(&key, "x", dtype_name(desc->x->tensor.type));
  tuning_key_int(&key, "rows", desc->rows);
  tuning_key_int(&key, "row", desc->row);
  return choose_splits(recorder, "norm parts", &key, desc->rows, OF_A_UNIT, desc->row / LEAST,
                       2 * desc->rows);
}

static clave_status opencl_norm_add_split(cl_recorder *recorder, const node *node,
                                          const norm_desc *desc, row_walk walk, int64_t n_splits,
                                          bool squares) {
  launch launch;
  begin_norm(&launch, recorder, node, desc, walk, false);
  launch_define(&launch, "SQUARES", squares);
  const int64_t items = desc->rows * n_splits, size = ceil_div(desc->row, n_splits);
  launch_args(&launch, &(norm_split_args){.x = buffer_arg(desc->x),
                                          .sums = scratch_arg(0),
                                          .items = items,
                                          .n = desc->row,
                                          .n_splits = n_splits,
                                          .split_size = size});
  return launch_rows(&launch, items, size, walk.team);
}

static clave_status add_both(cl_recorder *recorder, const node *node, const norm_desc *desc,
                             row_walk walk, int64_t n_splits) {
  TRY(begin_splits(recorder, n_splits, 2 * desc->rows, desc->x->tensor.type));
  TRY(opencl_norm_add_split(recorder, node, desc, walk, n_splits, false));
  return opencl_norm_add_split(recorder, node, desc, walk, n_splits, true);
}

clave_status opencl_group_norm(cl_recorder *recorder, const node *node) {
  norm_desc desc;
  describe_group_norm(node, &desc);
  const row_walk walk = opencl_norm_choose_walk(recorder, node, &desc);
  const int64_t n_splits = desc.row ? opencl_norm_count_splits(recorder, &desc) : 1;
  if (n_splits > 1) TRY(add_both(recorder, node, &desc, walk, n_splits));
  launch launch;
  begin_norm(&launch, recorder, node, &desc, walk, false);
  launch_define(&launch, "IN_SPLITS", n_splits > 1);
  launch_args(&launch, &(norm_groups_args){.norm = opencl_norm_arguments_of(&desc),
                                           .groups = desc.groups,
                                           .channels = desc.channels / desc.groups,
                                           .spatial = desc.plane,
                                           .sums = n_splits > 1 ? scratch_arg(0) : absent_arg(),
                                           .n_splits = n_splits,
                                           .split_size = ceil_div(desc.row, n_splits)});
  launch_epilogue(&launch);
  return launch_rows(&launch, desc.row ? desc.rows * n_splits : 0, 4 * ceil_div(desc.row, n_splits),
                     walk.team);
}

clave_status opencl_batch_norm(cl_recorder *recorder, const node *node) {
  norm_desc desc;
  describe_batch_norm(node, &desc);
  const row_walk walk = opencl_norm_choose_walk(recorder, node, &desc);
  launch launch;
  begin_norm(&launch, recorder, node, &desc, walk, false);
  launch_args(&launch, &(norm_batch_args){.norm = opencl_norm_arguments_of(&desc),
                                          .mean = buffer_arg(desc.mean),
                                          .var = buffer_arg(desc.var),
                                          .channels = desc.channels,
                                          .spatial = desc.plane});
  launch_epilogue(&launch);
  return run_norm(&launch, &desc, walk, desc.row);
}
