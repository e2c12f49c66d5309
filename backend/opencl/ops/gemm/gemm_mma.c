/* Products on GPUs that multiply blocks of F16 or BF16 by an instruction. */
#include "backend/opencl/ops/families.h"
#include "backend/opencl/ops/gemm/gemm.h"
#include "backend/opencl/ops/parts.h"

/* As in kernels_cl/gemm/gemm_mma.cl and mma.h. */
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

/* What the blocks are of: both operands as they are; else, where fewer digits will do, what they
 * are rounded to. False: neither. */
static bool choose_type(const gemm *g, dtype *type, bool *rounds) {
  dtype a = g->f.a->t.type, b = g->f.b->t.type;
  *type = a == DTYPE_F16 && b == DTYPE_F16 ? DTYPE_F16 : DTYPE_BF16;
  *rounds = a != *type || b != *type;
  return !*rounds || recorder_is_fast(g->s);
}

bool gemm_mma_takes(const gemm *g, int64_t tile) {
  const device_traits *t = recorder_traits(g->s);
  size_t words = 2 * (size_t)tile * PITCH + items(tile) * SHARED_WORDS;
  return t->max_local >= items(tile) && t->local_memory >= words * sizeof(uint32_t);
}

clave_status gemm_choose_mma(gemm *g) {
  dtype type;
  bool rounds;
  g->mma = MMA_NONE;
  if (!gemm_local_usable(g) || !choose_type(g, &type, &rounds) || !gemm_mma_takes(g, SMALL))
    return NULL;
  return recorder_mma(g->s, &g->mma);
}

static int64_t tile_of(const gemm *g) {
  if (g->each) return g->each;
  bool large = gemm_mma_takes(g, LARGE) &&
               gemm_groups(g, LARGE) >= (int64_t)recorder_traits(g->s)->compute_units;
  return large ? LARGE : SMALL;
}

clave_status gemm_mma(const void *product) {
  const gemm *g = product;
  const int64_t tile = tile_of(g), n_parts = gemm_parts(g, tile);
  dtype type;
  bool rounds;
  if (choose_type(g, &type, &rounds) && rounds) recorder_rounds(g->s, ROUNDS_TO_BF16);
  TRY(gemm_begin_parts(g, n_parts));
  launch l;
  gemm_begin(&l, g);
  gemm_define_orders(&l, g);
  launch_define(&l, "MMA", (int)g->mma);
  launch_dtype(&l, "MMA_TYPE", type);
  launch_define(&l, "WARPS_N", (int)warps_n(tile));
  launch_define(&l, "BLOCKS_M", (int)(tile / (WARPS_M * 16)));
  const parts_params parts = gemm_parts_of(&l, g, n_parts);
  launch_args(&l,
              &(gemm_mma_args){.gemm = gemm_operands(g), .dense = gemm_dense(g), .parts = parts});
  if (n_parts == 1) launch_epilogue(&l);
  size_t global[3] = {(size_t)ceil_div(g->f.n, tile) * items(tile), (size_t)ceil_div(g->f.m, tile),
                      (size_t)(g->f.batches * n_parts)},
         local[3] = {items(tile), 1, 1};
  TRY(launch_run(&l, 3, global, local));
  return n_parts > 1 ? add_parts(g->s, g->node, &g->f, n_parts) : NULL;
}
