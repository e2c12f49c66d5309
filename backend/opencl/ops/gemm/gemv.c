/* Products with few rows of a on CPUs, whose speed is limited by reading b. */
#include "backend/opencl/ops/gemm/gemm.h"

/* Same value as in kernels_cl/gemm/gemv.cl. */
enum { CHUNK_FLOATS = 4096 };

/* Returns the rows of a that the kernel is compiled for, which are few sizes: 1, 2, 4 and 8. */
static int gemv_class_of(int64_t m) { return m <= 1 ? 1 : m <= 2 ? 2 : m <= 4 ? 4 : 8; }
/* Returns how many neighbours of n are computed at once: `class` times as many sums, and as many
 * weights, fit 32 registers. */
static int gemv_rows_of(int class) { return class <= 4 ? 4 : 2; }

/* Returns the neighbours of n per work-item on a CPU: a multiple of `unit`, at most `most`, and few
 * enough that each core has several work-items. */
static int64_t share_columns(const gemm *gemm, int64_t unit, int64_t most) {
  if (gemm->each) return gemm->each;
  int64_t wanted = 4 * (int64_t)recorder_traits(gemm->recorder)->compute_units,
          each = gemm->desc.n * gemm->desc.batches / wanted / unit * unit;
  return each < unit ? unit : each > most ? most : each;
}

static clave_status gemv_run(const gemm *gemm, bool by_rows, int64_t each, size_t floats) {
  int class = gemv_class_of(gemm->desc.m);
  launch launch;
  gemm_begin(&launch, gemm);
  launch_define(&launch, "M", class);
  launch_define(&launch, "ROWS", gemv_rows_of(class));
  arg_local scratch = local_arg(sizeof(float) * floats);
  if (by_rows)
    launch_args(&launch, &(gemv_rows_args){.gemm = gemm_operands(gemm),
                                           .dense = gemm_dense(gemm),
                                           .each = each,
                                           .scratch = scratch});
  else
    launch_args(&launch, &(gemv_columns_args){.gemm = gemm_operands(gemm),
                                              .dense = gemm_dense(gemm),
                                              .each = each,
                                              .scratch = scratch});
  launch_epilogue(&launch);
  size_t global[2] = {(size_t)((gemm->desc.n + each - 1) / each), (size_t)gemm->desc.batches},
         local[2] = {1, 1};
  return launch_run(&launch, 2, global, local);
}

clave_status gemm_rows(const void *product) {
  const gemm *gemm = product;
  int64_t m = gemv_class_of(gemm->desc.m), each = share_columns(gemm, 4, 64);
  return gemv_run(gemm, true, each, (size_t)(each * m + (m > 1 ? CHUNK_FLOATS : 0)));
}

/* OpenCL 1.2 guarantees 32 KB of local memory; 8 rows of 512 floats take half of it. */
static int64_t max_columns(const gemm *gemm) {
  return gemv_class_of(gemm->desc.m) == 8 ? 512 : 1024;
}

bool gemm_columns_accepts(const gemm *gemm, int64_t columns) {
  return columns <= max_columns(gemm);
}

clave_status gemm_columns(const void *product) {
  const gemm *gemm = product;
  int64_t m = gemv_class_of(gemm->desc.m), each = share_columns(gemm, 64, max_columns(gemm));
  return gemv_run(gemm, false, each, (size_t)(each * m));
}
