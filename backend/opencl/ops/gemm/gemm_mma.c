/* Products on GPUs with an instruction that multiplies blocks of F16 or BF16. */
#include "backend/opencl/ops/families.h"
#include "backend/opencl/ops/gemm/gemm.h"
#include "backend/opencl/ops/splits.h"

/* Same values as in kernels_cl/gemm/gemm_mma.cl. */
enum { PITCH = 20, DEPTH = 32, STAGES = 3, SMALL = 64, LARGE = 128 };

/* Returns the numbers of sub-groups along m and along n in a tile. */
static const uint8_t *warps_of(const gemm *gemm, int64_t tile) {
  return gemm->mma.warps[tile == LARGE];
}
static size_t items(const gemm *gemm, int64_t tile) {
  const uint8_t *warps = warps_of(gemm, tile);
  return (size_t)warps[0] * warps[1] * gemm->mma.lanes;
}

/* Sets the dtype of the blocks: the dtype of the operands or, in fast precision, BF16, to which the
 * operands are rounded (*rounds). Returns false if neither is possible. */
static bool choose_type(const gemm *gemm, dtype *type, bool *rounds) {
  dtype a = gemm->desc.a->tensor.type, b = gemm->desc.b->tensor.type;
  *type = a == DTYPE_F16 && b == DTYPE_F16 ? DTYPE_F16 : DTYPE_BF16;
  *rounds = a != *type || b != *type;
  return !*rounds || recorder_is_fast(gemm->recorder);
}

bool gemm_mma_accepts(const gemm *gemm, int64_t tile) {
  const device_traits *traits = recorder_traits(gemm->recorder);
  dtype type;
  bool rounds;
  choose_type(gemm, &type, &rounds);
  const bool copies = gemm->mma.kind == MMA_LDMATRIX && !rounds;
  const size_t words = 2 * (size_t)tile * (copies ? STAGES * DEPTH / 2 : PITCH);
  return traits->max_local >= items(gemm, tile) && traits->local_memory >= words * sizeof(uint32_t);
}

clave_status gemm_choose_mma(gemm *gemm) {
  dtype type;
  bool rounds;
  gemm->mma = (mma_unit){.kind = MMA_NONE};
  if (!gemm_local_usable(gemm) || !choose_type(gemm, &type, &rounds)) return NULL;
  TRY(recorder_mma(gemm->recorder, &gemm->mma));
  const bool suits = type == DTYPE_F16 || gemm->mma.has_bf16;
  if (!suits || !gemm_mma_accepts(gemm, SMALL)) gemm->mma.kind = MMA_NONE;
  return NULL;
}

static int64_t gemm_mma_tile_of(const gemm *gemm) {
  if (gemm->each) return gemm->each;
  bool large =
      gemm_mma_accepts(gemm, LARGE) &&
      gemm_work_groups(gemm, LARGE) >= (int64_t)recorder_traits(gemm->recorder)->compute_units;
  return large ? LARGE : SMALL;
}

clave_status gemm_mma(const void *product) {
  const gemm *gemm = product;
  const int64_t tile = gemm_mma_tile_of(gemm), n_splits = gemm_splits(gemm, tile);
  dtype type;
  bool rounds;
  if (choose_type(gemm, &type, &rounds) && rounds) recorder_rounds(gemm->recorder, ROUNDS_TO_BF16);
  TRY(gemm_begin_splits(gemm, n_splits));
  launch launch;
  gemm_begin(&launch, gemm);
  gemm_define_orders(&launch, gemm);
  launch_mma(&launch, &gemm->mma);
  launch_dtype(&launch, "MMA_TYPE", type);
  launch_define(&launch, "TILE", (int)tile);
  launch_define(&launch, "WARPS_M", warps_of(gemm, tile)[0]);
  launch_define(&launch, "WARPS_N", warps_of(gemm, tile)[1]);
  const splits_params splits = gemm_splits_of(&launch, gemm, n_splits);
  launch_args(
      &launch,
      &(gemm_mma_args){.gemm = gemm_operands(gemm), .dense = gemm_dense(gemm), .splits = splits});
  if (n_splits == 1) launch_epilogue(&launch);
  size_t global[3] = {(size_t)ceil_div(gemm->desc.n, tile) * items(gemm, tile),
                      (size_t)ceil_div(gemm->desc.m, tile),
                      (size_t)(gemm->desc.batches * n_splits)},
         local[3] = {items(gemm, tile), 1, 1};
  TRY(launch_run(&launch, 3, global, local));
  return n_splits > 1 ? add_splits(gemm->recorder, gemm->node, &gemm->desc, n_splits) : NULL;
}
