/* Products with few rows of a on GPUs, bound by reading b. */
#include "backend/opencl/ops/families.h"
#include "backend/opencl/ops/gemm/gemm.h"

/* As in kernels_cl/gemm/gemv_lanes.cl. */
enum { GROUP = LOCAL_SIZE, WORD = 8, COLUMNS = 8 };

static int class_of(int64_t m) { return m <= 1 ? 1 : m <= 2 ? 2 : m <= 4 ? 4 : 8; }

/* Groups that a unit should have, to hide how long memory takes. */
static bool has_work(const gemm *g, int64_t groups) {
  enum { GROUPS = 8 };
  return groups * g->f.batches >= GROUPS * (int64_t)recorder_traits(g->s)->compute_units;
}

static void begin(launch *l, const gemm *g, int64_t lanes) {
  gemm_begin(l, g);
  launch_define(l, "M", class_of(g->f.m));
  launch_define(l, "LANES", (int)lanes);
}

/* columns: of out, of a group. */
static clave_status run(launch *l, const gemm *g, int64_t columns) {
  launch_epilogue(l);
  size_t global[2] = {(size_t)(ceil_div(g->f.n, columns) * GROUP), (size_t)g->f.batches},
         local[2] = {GROUP, 1};
  return launch_run(l, 2, global, local);
}

/* Work-items that share a column: all of a group, unless k has too few words for them. */
static int64_t row_lanes(const gemm *g) {
  enum { FEW = 16 };
  if (g->each) return g->each;
  return g->f.k >= GROUP * WORD ? GROUP : FEW;
}

/* Columns at once: each word of a is read for all of them. The sums must fit registers. */
static int64_t rows_at_once(const gemm *g, int64_t lanes) {
  int64_t most = class_of(g->f.m) <= 4 ? 4 : 2;
  return has_work(g, g->f.n / (most * GROUP / lanes)) ? most : 1;
}

clave_status gemm_row_lanes(const void *product) {
  const gemm *g = product;
  int64_t lanes = row_lanes(g), rows = rows_at_once(g, lanes);
  bool subgroups = false;
  if (lanes == GROUP) TRY(recorder_has_subgroups(g->s, &subgroups));
  launch l;
  begin(&l, g, lanes);
  launch_define(&l, "ROWS", (int)rows);
  launch_subgroups(&l, subgroups);
  launch_args(&l, &(gemv_row_lanes_args){.gemm = gemm_operands(g), .dense = gemm_dense(g)});
  return run(&l, g, GROUP / lanes * rows);
}

/* Work-items side by side: a line of memory, fewer where that leaves few groups. */
static int64_t column_lanes(const gemm *g) {
  enum { MANY = 8, FEW = 4 };
  if (g->each) return g->each;
  return has_work(g, g->f.n / (MANY * COLUMNS)) ? MANY : FEW;
}

clave_status gemm_column_lanes(const void *product) {
  const gemm *g = product;
  int64_t lanes = column_lanes(g);
  launch l;
  begin(&l, g, lanes);
  launch_args(&l, &(gemv_column_lanes_args){.gemm = gemm_operands(g), .dense = gemm_dense(g)});
  return run(&l, g, lanes * COLUMNS);
}
