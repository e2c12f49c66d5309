/* Products with few rows of a on GPUs, whose speed is limited by reading b. */
#include "backend/opencl/ops/families.h"
#include "backend/opencl/ops/gemm/gemm.h"

/* Same values as in kernels_cl/gemm/gemv_lanes.cl. */
enum { GROUP = LOCAL_SIZE, WORD = 8, COLUMNS = 8 };

static int gemv_lanes_class_of(int64_t m) { return m <= 1 ? 1 : m <= 2 ? 2 : m <= 4 ? 4 : 8; }

/* True if each compute unit has enough groups to hide memory latency. */
static bool has_work(const gemm *gemm, int64_t groups) {
  enum { GROUPS = 8 };
  return groups * gemm->desc.batches >=
         GROUPS * (int64_t)recorder_traits(gemm->recorder)->compute_units;
}

static void gemv_lanes_begin(launch *launch, const gemm *gemm, int64_t lanes) {
  gemm_begin(launch, gemm);
  launch_define(launch, "M", gemv_lanes_class_of(gemm->desc.m));
  launch_define(launch, "LANES", (int)lanes);
}

/* columns: columns of out per group. */
static clave_status gemv_lanes_run(launch *launch, const gemm *gemm, int64_t columns) {
  launch_epilogue(launch);
  size_t global[2] = {(size_t)(ceil_div(gemm->desc.n, columns) * GROUP),
                      (size_t)gemm->desc.batches},
         local[2] = {GROUP, 1};
  return launch_run(launch, 2, global, local);
}

/* Returns the work-items that share a column: a whole group, unless k is too short for it. */
static int64_t row_lanes(const gemm *gemm) {
  enum { FEW = 16 };
  if (gemm->each) return gemm->each;
  return gemm->desc.k >= GROUP * WORD ? GROUP : FEW;
}

/* Returns the columns computed at once, which share each word of a. Their sums fit registers. */
static int64_t gemv_lanes_rows_at_once(const gemm *gemm, int64_t lanes) {
  int64_t most = gemv_lanes_class_of(gemm->desc.m) <= 4 ? 4 : 2;
  return has_work(gemm, gemm->desc.n / (most * GROUP / lanes)) ? most : 1;
}

clave_status gemm_row_lanes(const void *product) {
  const gemm *gemm = product;
  int64_t lanes = row_lanes(gemm), rows = gemv_lanes_rows_at_once(gemm, lanes);
  bool subgroups = false;
  if (lanes == GROUP) TRY(recorder_has_subgroups(gemm->recorder, &subgroups));
  launch launch;
  gemv_lanes_begin(&launch, gemm, lanes);
  launch_define(&launch, "ROWS", (int)rows);
  launch_subgroups(&launch, subgroups);
  launch_args(&launch,
              &(gemv_row_lanes_args){.gemm = gemm_operands(gemm), .dense = gemm_dense(gemm)});
  return gemv_lanes_run(&launch, gemm, GROUP / lanes * rows);
}

/* Returns the work-items along n in a group: they read a cache line together, or less if there
 * would be too few groups. */
static int64_t column_lanes(const gemm *gemm) {
  enum { MANY = 8, FEW = 4 };
  if (gemm->each) return gemm->each;
  return has_work(gemm, gemm->desc.n / (MANY * COLUMNS)) ? MANY : FEW;
}

clave_status gemm_column_lanes(const void *product) {
  const gemm *gemm = product;
  int64_t lanes = column_lanes(gemm);
  launch launch;
  gemv_lanes_begin(&launch, gemm, lanes);
  launch_args(&launch,
              &(gemv_column_lanes_args){.gemm = gemm_operands(gemm), .dense = gemm_dense(gemm)});
  return gemv_lanes_run(&launch, gemm, lanes * COLUMNS);
}
