/* Products on GPUs: work-groups stage square tiles in local memory. */
#include "backend/opencl/ops/families.h"
#include "backend/opencl/ops/gemm/gemm.h"
#include "backend/opencl/ops/splits.h"

/* Same values as in kernels_cl/gemm/gemm_local.cl. */
enum { SIDE = 16, GROUP = SIDE * SIDE, DEPTH = 16, SMALL = 64, LARGE = 128 };

/* Returns an operand's contiguous axis: 1: k; 0: rows of a or columns of b; -1: none. */
static int gemm_local_order_of(int64_t stride, int64_t k_stride, int64_t rows, int64_t k) {
  return k_stride == 1 || k == 1 ? 1 : stride == 1 || rows == 1 ? 0 : -1;
}
static int order_of_a(const gemm *gemm) {
  return gemm_local_order_of(gemm->desc.a_m, gemm->desc.a_k, gemm->desc.m, gemm->desc.k);
}
static int order_of_b(const gemm *gemm) {
  return gemm_local_order_of(gemm->desc.b_n, gemm->desc.b_k, gemm->desc.n, gemm->desc.k);
}

void gemm_define_orders(launch *launch, const gemm *gemm) {
  launch_define(launch, "A_ORDER", order_of_a(gemm));
  launch_define(launch, "B_ORDER", order_of_b(gemm));
}

/* True if local memory holds DEPTH k of both operands' tiles, with rows padded by a float4. */
static bool gemm_local_fits(const device_traits *traits, int64_t tile) {
  return traits->max_local >= GROUP &&
         traits->local_memory >= 2 * sizeof(float) * DEPTH * (size_t)(tile + 4);
}

bool gemm_local_usable(const gemm *gemm) {
  const device_traits *traits = recorder_traits(gemm->recorder);
  return !traits->is_cpu && !gemm->grouped && !gemm_is_encoded(gemm) && gemm->desc.k > 0 &&
         gemm_is_small_float(gemm->desc.a->tensor.type) &&
         gemm_is_small_float(gemm->desc.b->tensor.type) &&
         gemm_is_small_float(gemm->desc.out->tensor.type) && order_of_a(gemm) >= 0 &&
         order_of_b(gemm) >= 0 && gemm_local_fits(traits, SMALL);
}

bool gemm_local_accepts(const gemm *gemm, int64_t tile) {
  return gemm_local_fits(recorder_traits(gemm->recorder), tile);
}

int64_t gemm_work_groups(const gemm *gemm, int64_t tile) {
  return ceil_div(gemm->desc.m, tile) * ceil_div(gemm->desc.n, tile) * gemm->desc.batches;
}

/* Returns the tile size. A tile of 128 reads half as much as tiles of 64, but needs four times the
 * registers. It is used on GPUs with dedicated memory if each compute unit still gets two groups,
 * and each of its SIMD units two waves. */
static int64_t gemm_local_tile_of(const gemm *gemm) {
  enum { LARGE_REGISTERS = 216 }; /* maximum registers of a wave with a tile of 128, on gfx900 */
  const device_traits *traits = recorder_traits(gemm->recorder);
  if (gemm->each) return gemm->each;
  bool large = !traits->shares_host_memory && traits->registers >= 2 * LARGE_REGISTERS &&
               gemm_local_fits(traits, LARGE) &&
               gemm_work_groups(gemm, LARGE) >= 2 * (int64_t)traits->compute_units;
  return large ? LARGE : SMALL;
}

/* Products smaller than a tile would leave most of it empty. */
bool gemm_local_is_better(const gemm *gemm) {
  return gemm_local_usable(gemm) && gemm->desc.m > SMALL / 2 && gemm->desc.n > SMALL / 2;
}

static int64_t split_depth(const gemm *gemm, int64_t n_splits) {
  enum { CHAIN = 64 }; /* same value as in the kernels */
  return ceil_div(ceil_div(gemm->desc.k, n_splits), CHAIN) * CHAIN;
}

int64_t gemm_splits(const gemm *gemm, int64_t tile) {
  enum { MIN_DEPTH = 128, OF_A_UNIT = 2 }; /* minimum k per split; work-groups per compute unit */
  const tuning_key key = gemm_key(gemm);
  const int64_t n =
      choose_splits(gemm->recorder, "matmul parts", &key, gemm_work_groups(gemm, tile), OF_A_UNIT,
                    gemm->desc.k / MIN_DEPTH, gemm->desc.batches * gemm->desc.m * gemm->desc.n);
  return ceil_div(gemm->desc.k, split_depth(gemm, n)); /* leaves no split empty */
}

clave_status gemm_begin_splits(const gemm *gemm, int64_t n_splits) {
  if (n_splits == 1) return NULL;
  return begin_splits(gemm->recorder, n_splits, gemm->desc.batches * gemm->desc.m * gemm->desc.n,
                      gemm->desc.out->tensor.type);
}

splits_params gemm_splits_of(launch *launch, const gemm *gemm, int64_t n_splits) {
  launch_define(launch, "IN_SPLITS", n_splits > 1);
  return (splits_params){.splits = n_splits > 1 ? scratch_arg(0) : absent_arg(),
                         .n_splits = n_splits,
                         .split_depth = split_depth(gemm, n_splits)};
}

clave_status gemm_local(const void *product) {
  const gemm *gemm = product;
  const int64_t tile = gemm_local_tile_of(gemm), n_splits = gemm_splits(gemm, tile);
  TRY(gemm_begin_splits(gemm, n_splits));
  launch launch;
  gemm_begin(&launch, gemm);
  gemm_define_orders(&launch, gemm);
  launch_define(&launch, "EACH", (int)(tile / SIDE));
  const splits_params splits = gemm_splits_of(&launch, gemm, n_splits);
  launch_args(
      &launch,
      &(gemm_local_args){.gemm = gemm_operands(gemm), .dense = gemm_dense(gemm), .splits = splits});
  if (n_splits == 1) launch_epilogue(&launch);
  size_t global[3] = {(size_t)ceil_div(gemm->desc.n, tile) * SIDE,
                      (size_t)ceil_div(gemm->desc.m, tile) * SIDE,
                      (size_t)(gemm->desc.batches * n_splits)},
         local[3] = {SIDE, SIDE, 1};
  TRY(launch_run(&launch, 3, global, local));
  return n_splits > 1 ? add_splits(gemm->recorder, gemm->node, &gemm->desc, n_splits) : NULL;
}
