/* out[z][m][n] = alpha * sum_k a[z][m][k] * b[z][k][n] + beta * bias[z][m][n] on GPUs that multiply
 * blocks of F16 or BF16 by an instruction (mma.h). a and b are of MMA_TYPE, or rounded to it if it
 * is BF16. Each is contiguous along k (ORDER 1) or along the other axis (0).
 *
 * A group of WARPS_M x WARPS_N sub-groups ("warps") computes TILE rows and columns of out, a warp
 * BLOCKS_M x BLOCKS_N blocks. DEPTH k of a and b at a time are staged in local memory. If COPIES,
 * asynchronous copies fill STAGES - 1 later stages meanwhile. Otherwise a stage has words of two k,
 * and if PREFETCH, its elements are loaded to registers during the products of the stage before. */
#include "matmul.h"
#include "mma_blocks.h"
#include "mma_tiles.h"
#include "splits.h"
#ifndef MMA_TYPE
#define MMA_TYPE F16
#endif
#ifndef A_ORDER
#define A_ORDER 1
#define B_ORDER 0
#endif
#define DEPTH TILE_DEPTH
#define PITCH (DEPTH / 2 + 4) /* words per staged row; 8 rows are in different banks */
#define CHAIN 64              /* k per sum before it is added to the total */
#define ROUNDS (KIND(A_TYPE) != KIND(MMA_TYPE) || KIND(B_TYPE) != KIND(MMA_TYPE))
#define TEXELS (TILE * DEPTH / 4 / GROUP) /* texels that a work-item fetches, at most */
#define PREFETCH (MMA < MMA_DPAS_8)       /* Intel's compiler would keep the texels in memory */
#define COPIES (MMA == MMA_LDMATRIX && !ROUNDS)
#define STAGES 3

static inline void end_chain(float (*partial)[BLOCKS_N][SUMS], float (*sum)[BLOCKS_N][SUMS]) {
  UNROLL_MMA
  for (int i = 0; i < BLOCKS * SUMS; i++) {
    SUM_OF(sum, i) += SUM_OF(partial, i);
    SUM_OF(partial, i) = 0;
  }
}

#if COPIES
#define STAGE_WORDS (2 * TILE_TEXELS(TILE) * 4)
/* The operands from begin to end, and the stages of both in local memory. */
typedef struct operand_pipeline {
  operand a, b;
  index_t end;
  __local uint4 *stages;
  copies pending;
} operand_pipeline;
static inline tile a_of_stage(const operand_pipeline *pipeline, int stage) {
  return (tile)TILE_AT(pipeline->stages + 2 * stage * TILE_TEXELS(TILE), TILE, A_ORDER);
}
static inline tile b_of_stage(const operand_pipeline *pipeline, int stage) {
  return (tile)TILE_AT(pipeline->stages + (2 * stage + 1) * TILE_TEXELS(TILE), TILE, B_ORDER);
}

/* Begins to fill a stage with the elements from k0 on. */
static inline void begin_stage(operand_pipeline *pipeline, int stage, index_t k0, int item) {
  const tile a = a_of_stage(pipeline, stage), b = b_of_stage(pipeline, stage);
  if (k0 < pipeline->end) {
    begin_tile(&pipeline->pending, &pipeline->a, k0, &a, TILE, item, GROUP);
    begin_tile(&pipeline->pending, &pipeline->b, k0, &b, TILE, item, GROUP);
  }
  copies_commit(&pipeline->pending);
}

/* partial += the products of a stage. m, n: the first row and column of the warp. */
static inline void add_products(const operand_pipeline *pipeline, int stage, int m, int n, int lane,
                                float (*partial)[BLOCKS_N][SUMS]) {
  const tile a = a_of_stage(pipeline, stage), b = b_of_stage(pipeline, stage);
  UNROLL_MMA
  for (int k = 0; k < DEPTH; k += 2 * MMA_WORDS) {
    tile_a_fragment x[BLOCKS_M];
    tile_b_fragment y[BLOCKS_N];
    UNROLL_MMA
    for (int i = 0; i < BLOCKS_M; i++) x[i] = tile_a(&a, m + i * MMA_M, k, lane);
    UNROLL_MMA
    for (int j = 0; j < BLOCKS_N; j++) y[j] = tile_b(&b, n + j * MMA_N, k, lane);
    UNROLL_MMA
    for (int i = 0; i < BLOCKS_M * BLOCKS_N; i++)
      MULTIPLY_TILES(MMA_TYPE, partial[i / BLOCKS_N][i % BLOCKS_N], x[i / BLOCKS_N],
                     y[i % BLOCKS_N], lane);
  }
}

/* sum += all products from k = begin on. */
static inline void add_stages(operand_pipeline *pipeline, index_t begin, int m, int n, int item,
                              float (*partial)[BLOCKS_N][SUMS], float (*sum)[BLOCKS_N][SUMS]) {
  for (int stage = 0; stage < STAGES - 1; stage++)
    begin_stage(pipeline, stage, begin + stage * DEPTH, item);
  int stage = 0;
  for (index_t k0 = begin; k0 < pipeline->end; k0 += DEPTH) {
    copies_wait(&pipeline->pending, STAGES - 2);
    barrier(CLK_LOCAL_MEM_FENCE);
    begin_stage(pipeline, stage == 0 ? STAGES - 1 : stage - 1, k0 + (STAGES - 1) * DEPTH, item);
    add_products(pipeline, stage, m, n, item % MMA_LANES, partial);
    if ((k0 + DEPTH) % CHAIN == 0) end_chain(partial, sum);
    stage = stage == STAGES - 1 ? 0 : stage + 1;
  }
}
#else
#define STAGE_WORDS (2 * TILE * PITCH)
/* Finds the position of texel i of a work-item in a stage; returns false if there is no such texel.
 * If k is contiguous, it is a texel of one row; else the texels of an even k and the next k follow
 * each other. */
static inline bool find_texel(const operand *o, int item, int i, int *row, int *k) {
  const int vector = 8 / o->halves;
  if (o->order) {
    const int w = item + i * GROUP;
    *row = w / (DEPTH / vector);
    *k = w % (DEPTH / vector) * vector;
  } else {
    const int w = item + i / 2 * GROUP;
    *row = w % (TILE / vector) * vector;
    *k = w / (TILE / vector) * 2 + i % 2;
  }
  return *row < TILE && *k < DEPTH;
}

#if ROUNDS
static inline void round_row(const operand *o, uint4 texel, __local uint *to) {
  const float8 v = texel_floats(o->kind, texel);
  to[0] = pair_BF16(v.s0, v.s1), to[1] = pair_BF16(v.s2, v.s3);
  if (o->halves == 2) return;
  to[2] = pair_BF16(v.s4, v.s5), to[3] = pair_BF16(v.s6, v.s7);
}
static inline void round_rows(const operand *o, uint4 even, uint4 odd, __local uint *to) {
  const float8 x = texel_floats(o->kind, even), y = texel_floats(o->kind, odd);
  to[0] = pair_BF16(x.s0, y.s0), to[PITCH] = pair_BF16(x.s1, y.s1);
  to[2 * PITCH] = pair_BF16(x.s2, y.s2), to[3 * PITCH] = pair_BF16(x.s3, y.s3);
  if (o->halves == 2) return;
  to[4 * PITCH] = pair_BF16(x.s4, y.s4), to[5 * PITCH] = pair_BF16(x.s5, y.s5);
  to[6 * PITCH] = pair_BF16(x.s6, y.s6), to[7 * PITCH] = pair_BF16(x.s7, y.s7);
}
#else
#define round_row(o, texel, to)
#define round_rows(o, even, odd, to)
#endif

/* Stores neighbours along k to `to`, in their row. */
static inline void store_row(const operand *o, uint4 texel, __local uint *to) {
  if (o->kind == KIND(MMA_TYPE)) {
    vstore4(texel, 0, to);
    return;
  }
  round_row(o, texel, to);
}

/* Stores neighbouring rows of an even k and the next k. to: their word in the first row. */
static inline void store_rows(const operand *o, uint4 even, uint4 odd, __local uint *to) {
  if (o->kind == KIND(MMA_TYPE)) {
    store_pairs(even, odd, to, PITCH);
    return;
  }
  round_rows(o, even, odd, to);
}

#if PREFETCH
static inline void fetch_stage(const operand *o, index_t k0, int item, uint4 *texels) {
  UNROLL_MMA
  for (int i = 0; i < TEXELS; i++) {
    int row, k;
    texels[i] = find_texel(o, item, i, &row, &k) ? fetch_at(o, row, k0 + k) : (uint4)0;
  }
}

/* stage: (TILE, PITCH) words */
static inline void store_stage(const operand *o, int item, const uint4 *texels,
                               __local uint *stage) {
  UNROLL_MMA
  for (int i = 0; i < TEXELS; i++) {
    int row, k;
    if (!find_texel(o, item, i, &row, &k)) continue;
    __local uint *to = stage + row * PITCH + k / 2;
    if (o->order)
      store_row(o, texels[i], to);
    else if (i % 2 == 1)
      store_rows(o, texels[i - 1], texels[i], to);
  }
}
#else
/* Copies the elements from k0 on to stage (TILE, PITCH). */
static inline void copy_stage(const operand *o, index_t k0, int item, __local uint *stage) {
  UNROLL_MMA
  for (int i = 0; i < TEXELS; i += 2 - o->order) {
    int row, k;
    if (!find_texel(o, item, i, &row, &k)) continue;
    const uint4 texel = fetch_at(o, row, k0 + k);
    __local uint *to = stage + row * PITCH + k / 2;
    if (o->order)
      store_row(o, texel, to);
    else
      store_rows(o, texel, fetch_at(o, row, k0 + k + 1), to);
  }
}
#endif

/* partial += the products of a stage. as, bs: the rows and columns of the warp. */
static inline void add_products(const __local uint *as, const __local uint *bs, int lane,
                                float (*partial)[BLOCKS_N][SUMS]) {
  UNROLL_MMA
  for (int w = 0; w < DEPTH / 2; w += MMA_WORDS) {
    a_fragment x[BLOCKS_M];
    b_fragment y[BLOCKS_N];
    UNROLL_MMA
    for (int i = 0; i < BLOCKS_M; i++) x[i] = load_a(as + i * MMA_M * PITCH + w, PITCH, lane);
    UNROLL_MMA
    for (int j = 0; j < BLOCKS_N; j++) y[j] = load_b(bs + j * MMA_N * PITCH + w, PITCH, lane);
    UNROLL_MMA
    for (int i = 0; i < BLOCKS_M * BLOCKS_N; i++) {
      const int m = i / BLOCKS_N, n = i % BLOCKS_N;
      MULTIPLY(MMA_TYPE, partial[m][n], x[m], y[n], lane);
    }
  }
}

/* sum += all products from k = begin to end. */
static inline void add_stages(const operand *from_a, const operand *from_b, index_t begin,
                              index_t end, int m, int n, int item, __local uint *as,
                              float (*partial)[BLOCKS_N][SUMS], float (*sum)[BLOCKS_N][SUMS]) {
  __local uint *bs = as + TILE * PITCH;
#if PREFETCH
  uint4 next_a[TEXELS], next_b[TEXELS];
  fetch_stage(from_a, begin, item, next_a);
  fetch_stage(from_b, begin, item, next_b);
#endif
  for (index_t k0 = begin; k0 < end; k0 += DEPTH) {
#if PREFETCH
    store_stage(from_a, item, next_a, as);
    store_stage(from_b, item, next_b, bs);
    barrier(CLK_LOCAL_MEM_FENCE);
    fetch_stage(from_a, k0 + DEPTH, item, next_a);
    fetch_stage(from_b, k0 + DEPTH, item, next_b);
#else
    copy_stage(from_a, k0, item, as);
    copy_stage(from_b, k0, item, bs);
    barrier(CLK_LOCAL_MEM_FENCE);
#endif
    add_products(as + m * PITCH, bs + n * PITCH, item % MMA_LANES, partial);
    if ((k0 + DEPTH) % CHAIN == 0) end_chain(partial, sum);
    barrier(CLK_LOCAL_MEM_FENCE);
  }
}
#endif

__kernel void gemm_mma(GEMM_PARAMS, DENSE_PARAMS, SPLITS_PARAMS) {
  const index_t z = (index_t)get_group_id(2) / n_splits, tile_m = (index_t)get_group_id(1) * TILE,
                tile_n = (index_t)get_group_id(0) * TILE;
  const product at = PRODUCT_AT(z);
  const int item = (int)get_local_id(0), lane = item % MMA_LANES, warp = item / MMA_LANES;
  const int warp_m = warp / WARPS_N * BLOCKS_M * MMA_M, warp_n = warp % WARPS_N * BLOCKS_N * MMA_N;
  const index_t begin = (index_t)get_group_id(2) % n_splits * split_depth,
                end = min(begin + split_depth, at.depth);
  float partial[BLOCKS_M][BLOCKS_N][SUMS] = {{{0}}}, sum[BLOCKS_M][BLOCKS_N][SUMS] = {{{0}}};
#if COPIES
  __local uint4 stages[STAGES * STAGE_WORDS / 4];
  operand_pipeline all = {ROWS_OF_A(at, tile_m, end, A_ORDER),
                          COLUMNS_OF_B(at, tile_n, end, B_ORDER), end, stages};
  add_stages(&all, begin, warp_m, warp_n, item, partial, sum);
#else
  __local __attribute__((aligned(16))) uint stage[STAGE_WORDS];
  const operand from_a = ROWS_OF_A(at, tile_m, end, A_ORDER),
                from_b = COLUMNS_OF_B(at, tile_n, end, B_ORDER);
  add_stages(&from_a, &from_b, begin, end, warp_m, warp_n, item, stage, partial, sum);
#endif
  end_chain(partial, sum);

  out += out_offset + at.out;
  bias += bias_offset + strided_offset(z, batch_dims, bias_batch);
  const index_t m0 = tile_m + warp_m, n0 = tile_n + warp_n;
  UNROLL_MMA
  for (int i = 0; i < BLOCKS * SUMS; i++) {
    const index_t m = m0 + ROW_AT(lane, i), n = n0 + COLUMN_AT(lane, i);
    if (m >= at.rows || n >= n_size) continue;
    const float v = SUM_OF(sum, i);
#if IN_SPLITS
    splits[SPLIT_AT(at, m, n)] = v;
#else
    STORE(OUT_TYPE, out, m * n_size + n, finish(v, bias, m * bias_m + n * bias_n, alpha, beta));
#endif
  }
#if !IN_SPLITS
  for (int i = 0; i < BLOCKS * SUMS; i += SUM_RUN) {
    const index_t m = m0 + ROW_AT(lane, i), n = n0 + COLUMN_AT(lane, i);
    if (m < at.rows && n < n_size)
      EPILOGUE(out + m * n_size + n, (index_t)at.out + m * n_size + n,
               (int)min((index_t)SUM_RUN, n_size - n));
  }
#endif
}
