/* Positions of what is not zero: kernels_cl/nonzero.cl. */
#include "ops/nonzero.h"

#include "backend/opencl/ops/families.h"
#include "opencl_ops.h"

enum { GPU_CHUNK = 64, MAX_CHUNKS = 4096 /* each work-item reads all of their counts */ };

static int64_t choose_chunk(const cl_recorder *s, int64_t n) {
  const device_traits *t = recorder_traits(s);
  if (t->is_cpu) return max_i64(1024, ceil_div(n, 4 * (int64_t)t->compute_units));
  return max_i64(GPU_CHUNK, ceil_div(n, MAX_CHUNKS));
}

static void begin_launch(launch *l, cl_recorder *s, const node *n, dtype type) {
  launch_begin(l, s, n);
  launch_dtype(l, "TYPE", moved_type(type));
  launch_define(l, "SHIFT", 64 - 8 * (int)dtype_size(type) + dtype_is_float(type));
}

clave_status opencl_nonzero(cl_recorder *s, const node *n) {
  nonzero_form f;
  describe_nonzero(n, &f);
  /* An empty x has one empty chunk, which writes the count. */
  int64_t chunk = choose_chunk(s, f.n), chunks = max_i64(1, ceil_div(f.n, chunk));
  TRY(recorder_scratch(s, (size_t)chunks * sizeof(cl_long)));
  launch l;
  begin_launch(&l, s, n, f.x->t.type);
  launch_args(&l, &(nonzero_count_args){.x = buffer_arg(f.x),
                                        .counts = scratch_arg(0),
                                        .chunks = chunks,
                                        .chunk = chunk,
                                        .n = f.n});
  TRY(launch_loops(&l, chunks, 1, chunk));
  begin_launch(&l, s, n, f.x->t.type);
  launch_args(&l, &(nonzero_write_args){.x = buffer_arg(f.x),
                                        .counts = scratch_arg(0),
                                        .out = buffer_arg(f.out),
                                        .count = buffer_arg(f.count),
                                        .dims = dims_arg(&f.x->t),
                                        .chunks = chunks,
                                        .chunk = chunk,
                                        .n = f.n,
                                        .rank = f.x->t.rank});
  return launch_loops(&l, chunks, 1, chunk);
}
