/* out[z][m][n] = alpha * sum_k a[z][m][k] * b[z][k][n] + beta * bias[z][m][n] on GPUs: floats up to
 * f32, sums in f32; a and b are contiguous along k (ORDER 1) or along the other axis (0).
 *
 * A group of SIDE x SIDE work-items computes TILE x TILE of out. DEPTH k of a and b at a time are
 * staged in local memory as f32, while the next are loaded to registers. A work-item has EACH x
 * EACH elements: blocks of 4 x 4, SIDE * 4 apart, so that neighbours read neighbouring words of
 * local memory. IN_PARTS: the k are split (parts.h). */
#include "fetch.h"
#include "matmul.h"
#include "parts.h"
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
#define WORDS (TILE * DEPTH / 4 / GROUP) /* most words of an operand per work-item */

/* row_of and k_of return the position of word w in a stage. */
static inline int row_of(const operand *o, int w) {
  const int vector = 8 / o->halves;
  return o->order ? w / (DEPTH / vector) : w % (TILE / vector) * vector;
}
static inline int k_of(const operand *o, int w) {
  const int vector = 8 / o->halves;
  return o->order ? w % (DEPTH / vector) * vector : w / (TILE / vector);
}
static inline bool is_in_stage(const operand *o, int w) { return w < TILE * DEPTH * o->halves / 8; }

/* Loads this work-item's words of the stage that begins at k0. */
static inline void fetch_stage(const operand *o, index_t k0, int lane, uint4 *words) {
#pragma unroll
  for (int i = 0; i < WORDS; i++) {
    const int w = lane + i * GROUP;
    words[i] = is_in_stage(o, w) ? fetch_at(o, row_of(o, w), k0 + k_of(o, w)) : (uint4)0;
  }
}

/* stage: (DEPTH, PITCH) */
static inline void store_stage(const operand *o, int lane, const uint4 *words,
                               __local float *stage) {
#pragma unroll
  for (int i = 0; i < WORDS; i++) {
    const int w = lane + i * GROUP, vector = 8 / o->halves;
    if (!is_in_stage(o, w)) continue;
    __local float *to = stage + k_of(o, w) * PITCH + row_of(o, w);
    float v[8];
    expand_word(o->kind, words[i], v);
    for (int j = 0; j < vector; j++) to[o->order ? j * PITCH : j] = v[j];
  }
}

/* part[i][j] += as[k][i] * bs[k][j] of this work-item's blocks. */
static inline void add_products(const __local float *as, const __local float *bs,
                                float4 (*part)[BLOCKS]) {
  const int at_m = (int)get_local_id(1) * 4, at_n = (int)get_local_id(0) * 4;
  for (int k = 0; k < DEPTH; k++) {
    float x[EACH];
    float4 y[BLOCKS];
#pragma unroll
    for (int p = 0; p < BLOCKS; p++) {
      vstore4(*(const __local float4 *)(as + k * PITCH + p * SIDE * 4 + at_m), p, x);
      y[p] = *(const __local float4 *)(bs + k * PITCH + p * SIDE * 4 + at_n);
    }
#pragma unroll
    for (int i = 0; i < EACH; i++)
#pragma unroll
      for (int p = 0; p < BLOCKS; p++) part[i][p] = fma((float4)x[i], y[p], part[i][p]);
  }
}

static inline void end_chain(float4 (*part)[BLOCKS], float4 (*sum)[BLOCKS]) {
#pragma unroll
  for (int i = 0; i < EACH; i++)
#pragma unroll
    for (int p = 0; p < BLOCKS; p++) {
      sum[i][p] += part[i][p];
      part[i][p] = 0;
    }
}

/* Returns the row or column in the tile of a work-item's row or column i. lane: its position in
 * that direction. */
static inline int place_of(int i, int lane) { return i / 4 * SIDE * 4 + lane * 4 + i % 4; }

__kernel void gemm_local(GEMM_PARAMS, DENSE_PARAMS, PARTS_PARAMS) {
  const index_t z = (index_t)get_group_id(2) / n_parts, tile_m = (index_t)get_group_id(1) * TILE,
                tile_n = (index_t)get_group_id(0) * TILE;
  const product at = PRODUCT_AT(z);
  const int lane_m = (int)get_local_id(1), lane_n = (int)get_local_id(0),
            lane = lane_m * SIDE + lane_n;
  const index_t begin = (index_t)get_group_id(2) % n_parts * part_depth,
                end = min(begin + part_depth, at.depth);
  const operand from_a = ROWS_OF_A(at, tile_m, end, A_ORDER),
                from_b = COLUMNS_OF_B(at, tile_n, end, B_ORDER);
  __local float as[DEPTH * PITCH] __attribute__((aligned(16)));
  __local float bs[DEPTH * PITCH] __attribute__((aligned(16)));
  uint4 next_a[WORDS], next_b[WORDS];
  float4 part[EACH][BLOCKS] = {{0}}, sum[EACH][BLOCKS] = {{0}};
  fetch_stage(&from_a, begin, lane, next_a);
  fetch_stage(&from_b, begin, lane, next_b);
  for (index_t k0 = begin; k0 < end; k0 += DEPTH) {
    store_stage(&from_a, lane, next_a, as);
    store_stage(&from_b, lane, next_b, bs);
    barrier(CLK_LOCAL_MEM_FENCE);
    fetch_stage(&from_a, k0 + DEPTH, lane, next_a);
    fetch_stage(&from_b, k0 + DEPTH, lane, next_b);
    add_products(as, bs, part);
    if ((k0 + DEPTH) % CHAIN == 0) end_chain(part, sum);
    barrier(CLK_LOCAL_MEM_FENCE);
  }
  end_chain(part, sum);

  out += out_offset + at.out;
  bias += bias_offset + strided_offset(z, batch_dims, bias_batch);
#pragma unroll
  for (int i = 0; i < EACH; i++) {
    const index_t m = tile_m + place_of(i, lane_m);
#pragma unroll
    for (int j = 0; j < EACH; j++) {
      const index_t n = tile_n + place_of(j, lane_n);
      if (m >= at.rows || n >= n_size) continue;
      const float v = ((const float *)&sum[i][j / 4])[j % 4];
#if IN_PARTS
      parts[PART_AT(at, m, n)] = v;
#else
      STORE(OUT_TYPE, out, m * n_size + n, finish(v, bias, m * bias_m + n * bias_n, alpha, beta));
#endif
    }
  }
#if !IN_PARTS
  for (int v = 0; v < EACH * BLOCKS; v++) {
    const index_t m = tile_m + place_of(v / BLOCKS, lane_m),
                  n = tile_n + place_of(v % BLOCKS * 4, lane_n);
    if (m < at.rows && n < n_size)
      EPILOGUE(out + m * n_size + n, (index_t)at.out + m * n_size + n,
               (int)min((index_t)4, n_size - n));
  }
#endif
}
