/* out[z][m][n] = alpha * sum_k a[z][m][k] * b[z][k][n] + beta * bias[z][m][n] on GPUs: floats up to
 * f32, sums in f32; a and b are contiguous along k (ORDER 1) or along the other axis (0).
 *
 * A group of SIDE x SIDE work-items computes TILE x TILE of out. DEPTH k of a and b at a time are
 * staged in local memory as f32, while the next are loaded to registers. A work-item computes EACH
 * x EACH elements: blocks of 4 x 4, SIDE * 4 apart, so that neighbours read neighbouring texels of
 * local memory. IN_SPLITS: the k may be split (splits.h). */
#include "fetch.h"
#include "matmul.h"
#include "splits.h"
#ifndef A_ORDER
#define A_ORDER 1
#define B_ORDER 0
#endif
#ifndef EACH
#define EACH 4
#endif
#define SIDE 16
#define BLOCKS (EACH / 4)
#define GROUP (SIDE * SIDE)
#define TILE (SIDE * EACH)
#define PITCH (TILE + 4) /* whole float4 per staged k; neighbouring k are in different banks */
#define DEPTH 16
#define CHAIN 64 /* additions in a row before their sum is added to the total */
#define TEXELS (TILE * DEPTH / 4 / GROUP) /* maximum texels of an operand per work-item */

/* row_of and k_of return the position of texel w in a stage. */
static inline int row_of(const operand *o, int w) {
  const int vector = 8 / o->halves;
  return o->order ? w / (DEPTH / vector) : w % (TILE / vector) * vector;
}
static inline int k_of(const operand *o, int w) {
  const int vector = 8 / o->halves;
  return o->order ? w % (DEPTH / vector) * vector : w / (TILE / vector);
}
static inline bool is_in_stage(const operand *o, int w) { return w < TILE * DEPTH * o->halves / 8; }

/* Loads this work-item's texels of the stage that begins at k0. */
static inline void fetch_stage(const operand *o, index_t k0, int lane, uint4 *texels) {
#pragma unroll
  for (int i = 0; i < TEXELS; i++) {
    const int w = lane + i * GROUP;
    texels[i] = is_in_stage(o, w) ? fetch_at(o, row_of(o, w), k0 + k_of(o, w)) : (uint4)0;
  }
}

/* stage: (DEPTH, PITCH) */
static inline void store_stage(const operand *o, int lane, const uint4 *texels,
                               __local float *stage) {
#pragma unroll
  for (int i = 0; i < TEXELS; i++) {
    const int w = lane + i * GROUP, vector = 8 / o->halves;
    if (!is_in_stage(o, w)) continue;
    __local float *to = stage + k_of(o, w) * PITCH + row_of(o, w);
    float v[8];
    expand_texel(o->kind, texels[i], v);
#pragma unroll
    for (int j = 0; j < 8; j++)
      if (j < vector) to[o->order ? j * PITCH : j] = v[j];
  }
}

/* partial[i][j] += as[k][i] * bs[k][j] of this work-item's blocks. */
static inline void add_products(const __local float *as, const __local float *bs,
                                float4 (*partial)[BLOCKS]) {
  const int at_m = (int)get_local_id(1) * 4, at_n = (int)get_local_id(0) * 4;
  UNROLL_AT_MOST(2)
  for (int k = 0; k < DEPTH; k++) {
    float4 y[BLOCKS];
#pragma unroll
    for (int p = 0; p < BLOCKS; p++)
      y[p] = *(const __local float4 *)(bs + k * PITCH + p * SIDE * 4 + at_n);
#pragma unroll
    for (int i = 0; i < EACH; i += 4) {
      const float4 x = *(const __local float4 *)(as + k * PITCH + i * SIDE + at_m);
#pragma unroll
      for (int p = 0; p < BLOCKS; p++) {
        partial[i][p] = FMA((float4)x.s0, y[p], partial[i][p]);
        partial[i + 1][p] = FMA((float4)x.s1, y[p], partial[i + 1][p]);
        partial[i + 2][p] = FMA((float4)x.s2, y[p], partial[i + 2][p]);
        partial[i + 3][p] = FMA((float4)x.s3, y[p], partial[i + 3][p]);
      }
    }
  }
}

static inline void end_chain(float4 (*partial)[BLOCKS], float4 (*sum)[BLOCKS]) {
#pragma unroll
  for (int i = 0; i < EACH; i++)
#pragma unroll
    for (int p = 0; p < BLOCKS; p++) {
      sum[i][p] += partial[i][p];
      partial[i][p] = 0;
    }
}

/* Returns the row or column in the tile of row or column i of a work-item. lane: position of the
 * work-item in that direction. */
static inline int place_of(int i, int lane) { return i / 4 * SIDE * 4 + lane * 4 + i % 4; }

__kernel void gemm_local(GEMM_PARAMS, DENSE_PARAMS, SPLITS_PARAMS) {
  const index_t z = (index_t)get_group_id(2) / n_splits, tile_m = (index_t)get_group_id(1) * TILE,
                tile_n = (index_t)get_group_id(0) * TILE;
  const product at = PRODUCT_AT(z);
  const int lane_m = (int)get_local_id(1), lane_n = (int)get_local_id(0),
            lane = lane_m * SIDE + lane_n;
  const index_t begin = (index_t)get_group_id(2) % n_splits * split_depth,
                end = min(begin + split_depth, at.depth);
  const operand from_a = ROWS_OF_A(at, tile_m, end, A_ORDER),
                from_b = COLUMNS_OF_B(at, tile_n, end, B_ORDER);
  __local float as[DEPTH * PITCH] __attribute__((aligned(16)));
  __local float bs[DEPTH * PITCH] __attribute__((aligned(16)));
  uint4 next_a[TEXELS], next_b[TEXELS];
  float4 partial[EACH][BLOCKS] = {{0}}, sum[EACH][BLOCKS] = {{0}};
  fetch_stage(&from_a, begin, lane, next_a);
  fetch_stage(&from_b, begin, lane, next_b);
  for (index_t k0 = begin; k0 < end; k0 += DEPTH) {
    store_stage(&from_a, lane, next_a, as);
    store_stage(&from_b, lane, next_b, bs);
    barrier(CLK_LOCAL_MEM_FENCE);
    fetch_stage(&from_a, k0 + DEPTH, lane, next_a);
    fetch_stage(&from_b, k0 + DEPTH, lane, next_b);
    add_products(as, bs, partial);
    if ((k0 + DEPTH) % CHAIN == 0) end_chain(partial, sum);
    barrier(CLK_LOCAL_MEM_FENCE);
  }
  end_chain(partial, sum);

  out += out_offset + at.out;
  bias += bias_offset + strided_offset(z, batch_dims, bias_batch);
#pragma unroll
  for (int i = 0; i < EACH; i++) {
    const index_t m = tile_m + place_of(i, lane_m);
#pragma unroll
    for (int p = 0; p < BLOCKS; p++) {
      float lanes[4];
      vstore4(sum[i][p], 0, lanes);
#pragma unroll
      for (int l = 0; l < 4; l++) {
        const index_t n = tile_n + place_of(4 * p + l, lane_n);
        if (m >= at.rows || n >= n_size) continue;
#if IN_SPLITS
        splits[SPLIT_AT(at, m, n)] = lanes[l];
#else
        STORE(OUT_TYPE, out, m * n_size + n,
              finish(lanes[l], bias, m * bias_m + n * bias_n, alpha, beta));
#endif
      }
    }
  }
#if !IN_SPLITS
  for (int v = 0; v < EACH * BLOCKS; v++) {
    const index_t m = tile_m + place_of(v / BLOCKS, lane_m),
                  n = tile_n + place_of(v % BLOCKS * 4, lane_n);
    if (m < at.rows && n < n_size)
      EPILOGUE(out + m * n_size + n, (index_t)at.out + m * n_size + n,
               (int)min((index_t)4, n_size - n));
  }
#endif
}
