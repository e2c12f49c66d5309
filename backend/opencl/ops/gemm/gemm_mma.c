/* Products on GPUs with an instruction that multiplies blocks of F16 or BF16. */
#include "backend/opencl/ops/families.h"
#include "backend/opencl/ops/gemm/gemm.h"
#include "backend/opencl/ops/parts.h"

/* Same values as in kernels_cl/gemm/gemm_mma.cl and mma.h. */
enum {
  WARP = 32,
  WARPS_M = 2,
  BLOCKS_N = 4,
  PITCH = 20,
  SMALL = 64,
  LARGE = 128,
  SHARED_WORDS = 6
};

static int64_t warps_n(int64_t tile) { return tile / (BLOCKS_N * 8); }
static size_t items(int64_t tile) { return (size_t)(WARPS_M * warps_n(tile) * WARP); }

/* Sets the dtype of the blocks: that of the operands, or BF16 in fast precision, to which others
 * are rounded. Returns false if neither is possible. */
static bool choose_type(const gemm *gemm, dtype *type, bool *rounds) {
  dtype a = gemm->desc.a->tensor.type, b = gemm->desc.b->tensor.type;
  *type = a == DTYPE_F16 && b == DTYPE_F16 ? DTYPE_F16 : DTYPE_BF16;
  *rounds = a != *type || b != *type;
  return !*rounds || recorder_is_fast(gemm->recorder);
}

bool gemm_mma_takes(const gemm *gemm, int64_t tile) {
  const device_traits *traits = recorder_traits(gemm->recorder);
  size_t words = 2 * (size_t)tile * PITCH + items(tile) * SHARED_WORDS;
  return traits->max_local >= items(tile) && traits->local_memory >= words * sizeof(uint32_t);
}

clave_status gemm_choose_mma(gemm *gemm) {
  dtype type;
  bool rounds;
  gemm->mma = MMA_NONE;
  if (!gemm_local_usable(gemm) || !choose_type(gemm, &type, &rounds) ||
      !gemm_mma_takes(gemm, SMALL))
    return NULL;
  return recorder_mma(gemm->recorder, &gemm->mma);
}

static int64_t gemm_mma_tile_of(const gemm *gemm) {
  if (gemm->each) return gemm->each;
  bool large = gemm_mma_takes(gemm, LARGE) &&
               gemm_groups(gemm, LARGE) >= (int64_t)recorder_traits(gemm->recorder)->compute_units;
  return large ? LARGE : SMALL;
}

clave_status gemm_mma(const void *product) {
  const gemm *gemm = product;
  const int64_t tile = gemm_mma_tile_of(gemm), n_parts = gemm_parts(gemm, tile);
  dtype type;
  bool rounds;
  if (choose_type(gemm, &type, &rounds) && rounds) recorder_rounds(gemm->recorder, ROUNDS_TO_BF16);
  TRY(gemm_begin_parts(gemm, n_parts));
  launch launch;
  gemm_begin(&launch, gemm);
  gemm_define_orders(&launch, gemm);
  launch_define(&launch, "MMA", (int)gemm->mma);
  launch_dtype(&launch, "MMA_TYPE", type);
  launch_define(&launch, "WARPS_N", (int)warps_n(tile));
  launch_define(&launch, "BLOCKS_M", (int)(tile / (WARPS_M * 16)));
  const parts_params parts = gemm_parts_of(&launch, gemm, n_parts);
  launch_args(&launch, &(gemm_mma_args){
                           .gemm = gemm_operands(gemm), .dense = gemm_dense(gemm), .parts = parts});
  if (n_parts == 1) launch_epilogue(&launch);
  size_t global[3] = {(size_t)ceil_div(gemm->desc.n, tile) * items(tile),
                      (size_t)ceil_div(gemm->desc.m, tile), (size_t)(gemm->desc.batches * n_parts)},
         local[3] = {items(tile), 1, 1};
  TRY(launch_run(&launch, 3, global, local));
  return n_parts > 1 ? add_parts(gemm->recorder, gemm->node, &gemm->desc, n_parts) : NULL;
}
