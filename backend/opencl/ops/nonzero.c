/* Positions of nonzero elements: kernels_cl/nonzero.cl. */
#include "ops/nonzero.h"

#include "backend/opencl/ops/families.h"
#include "opencl_ops.h"

enum { GPU_CHUNK = 64, MAX_CHUNKS = 4096 /* each work-item reads the counts of all chunks */ };

static int64_t choose_chunk(const cl_recorder *recorder, int64_t n) {
  const device_traits *traits = recorder_traits(recorder);
  if (traits->is_cpu) return max_i64(1024, ceil_div(n, 4 * (int64_t)traits->compute_units));
  return max_i64(GPU_CHUNK, ceil_div(n, MAX_CHUNKS));
}

static void opencl_nonzero_begin_launch(launch *launch, cl_recorder *recorder, const node *node,
                                        dtype type) {
  launch_begin(launch, recorder, node);
  launch_dtype(launch, "TYPE", moved_type(type));
  launch_define(launch, "SHIFT", 64 - 8 * (int)dtype_size(type) + dtype_is_float(type));
}

clave_status opencl_nonzero(cl_recorder *recorder, const node *node) {
  nonzero_desc desc;
  describe_nonzero(node, &desc);
  /* An empty x has one empty chunk, which writes the count. */
  int64_t chunk = choose_chunk(recorder, desc.n), chunks = max_i64(1, ceil_div(desc.n, chunk));
  TRY(recorder_scratch(recorder, (size_t)chunks * sizeof(cl_long)));
  launch launch;
  opencl_nonzero_begin_launch(&launch, recorder, node, desc.x->tensor.type);
  launch_args(&launch, &(nonzero_count_args){.x = buffer_arg(desc.x),
                                             .counts = scratch_arg(0),
                                             .chunks = chunks,
                                             .chunk = chunk,
                                             .n = desc.n});
  TRY(launch_loops(&launch, chunks, 1, chunk));
  opencl_nonzero_begin_launch(&launch, recorder, node, desc.x->tensor.type);
  launch_args(&launch, &(nonzero_write_args){.x = buffer_arg(desc.x),
                                             .counts = scratch_arg(0),
                                             .out = buffer_arg(desc.out),
                                             .count = buffer_arg(desc.count),
                                             .dims = dims_arg(&desc.x->tensor),
                                             .chunks = chunks,
                                             .chunk = chunk,
                                             .n = desc.n,
                                             .rank = desc.x->tensor.rank});
  return launch_loops(&launch, chunks, 1, chunk);
}
