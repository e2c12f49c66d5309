/* out[z][m][n] = alpha * sum_k a[z][m][k] * b[z][k][n] + beta * bias[z][m][n] on GPUs that multiply
 * blocks of F16 or BF16 by an instruction (mma.h). a and b are of MMA_TYPE or rounded to it. Each
 * is contiguous along k (ORDER 1) or along the other axis (0).
 *
 * A group of WARPS_M x WARPS_N warps computes a tile of out, a warp BLOCKS_M x BLOCKS_N blocks of
 * 16 x 8. DEPTH k of a and b at a time are staged in local memory, in words of two k, while the
 * next are loaded to registers. */
#include "fetch.h"
#include "matmul.h"
#include "mma.h"
#include "parts.h"
#ifndef MMA_TYPE
#define MMA_TYPE F16
#endif
#ifndef A_ORDER
#define A_ORDER 1
#define B_ORDER 0
#endif
#ifndef WARPS_N
#define WARPS_N 2
#define BLOCKS_M 2
#endif
#define WARPS_M 2
#define BLOCKS_N 4
#define GROUP (WARPS_M * WARPS_N * WARP)
#define TILE (WARPS_N * BLOCKS_N * 8) /* rows, and as many columns */
#define DEPTH 32
#define PITCH (DEPTH / 2 + 4)            /* words per staged row; 8 rows are in different banks */
#define CHAIN 64                         /* k per sum before it is added to the total */
#define WORDS (TILE * DEPTH / 4 / GROUP) /* words of 16 bytes that a work-item fetches, at most */

/* Finds the position of word i of a work-item in a stage; returns false if there is no such word.
 * If k is contiguous, it is a word of one row; else the words of an even k and the next k follow
 * each other. */
static inline bool find_word(const operand *o, int item, int i, int *row, int *k) {
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

static inline void fetch_stage(const operand *o, index_t k0, int item, uint4 *words) {
#pragma unroll
  for (int i = 0; i < WORDS; i++) {
    int row, k;
    words[i] = find_word(o, item, i, &row, &k) ? fetch_at(o, row, k0 + k) : (uint4)0;
  }
}

/* Stores neighbours along k to `to`, in their row. */
static inline void store_row(const operand *o, uint4 word, __local uint *to) {
  if (o->kind == KIND(MMA_TYPE)) {
    vstore4(word, 0, to);
    return;
  }
  float v[8];
  expand_word(o->kind, word, v);
  for (int j = 0; j < 4 / o->halves; j++) to[j] = PAIR(MMA_TYPE, v[2 * j], v[2 * j + 1]);
}

/* Stores neighbouring rows of an even k and the next k. to: in the first row. */
static inline void store_rows(const operand *o, uint4 even, uint4 odd, __local uint *to) {
  if (o->kind == KIND(MMA_TYPE)) {
    uint low[4], high[4];
    vstore4((even & 0xffffu) | odd << 16u, 0, low);
    vstore4(even >> 16u | (odd & 0xffff0000u), 0, high);
    for (int j = 0; j < 4; j++) {
      to[2 * j * PITCH] = low[j];
      to[(2 * j + 1) * PITCH] = high[j];
    }
    return;
  }
  float x[8], y[8];
  expand_word(o->kind, even, x);
  expand_word(o->kind, odd, y);
  for (int j = 0; j < 8 / o->halves; j++) to[j * PITCH] = PAIR(MMA_TYPE, x[j], y[j]);
}

/* stage: (TILE, PITCH) words */
static inline void store_stage(const operand *o, int item, const uint4 *words,
                               __local uint *stage) {
#pragma unroll
  for (int i = 0; i < WORDS; i++) {
    int row, k;
    if (!find_word(o, item, i, &row, &k)) continue;
    __local uint *to = stage + row * PITCH + k / 2;
    if (o->order)
      store_row(o, words[i], to);
    else if (i % 2 == 1)
      store_rows(o, words[i - 1], words[i], to);
  }
}

/* part += the products of a stage. as, bs: the rows and columns of the warp. */
static inline void add_products(const __local uint *as, const __local uint *bs,
                                __local uint *memory, int lane, float (*part)[BLOCKS_N][4]) {
  const int g = lane / 4, t = lane % 4;
  for (int w = t; w < DEPTH / 2; w += 8) {
    uint x[BLOCKS_M][4], y[BLOCKS_N][2];
#pragma unroll
    for (int i = 0; i < BLOCKS_M * 4; i++)
      x[i / 4][i % 4] = as[(i / 4 * 16 + i % 2 * 8 + g) * PITCH + w + i % 4 / 2 * 4];
#pragma unroll
    for (int j = 0; j < BLOCKS_N * 2; j++)
      y[j / 2][j % 2] = bs[(j / 2 * 8 + g) * PITCH + w + j % 2 * 4];
    UNROLL_MMA
    for (int i = 0; i < BLOCKS_M; i++) UNROLL_MMA
    for (int j = 0; j < BLOCKS_N; j++) MULTIPLY(MMA_TYPE, part[i][j], x[i], y[j], memory, lane);
  }
}

static inline void end_chain(float (*part)[BLOCKS_N][4], float (*sum)[BLOCKS_N][4]) {
#pragma unroll
  for (int i = 0; i < BLOCKS_M * BLOCKS_N * 4; i++) {
    sum[i / 4 / BLOCKS_N][i / 4 % BLOCKS_N][i % 4] +=
        part[i / 4 / BLOCKS_N][i / 4 % BLOCKS_N][i % 4];
    part[i / 4 / BLOCKS_N][i / 4 % BLOCKS_N][i % 4] = 0;
  }
}

__kernel void gemm_mma(GEMM_PARAMS, DENSE_PARAMS, PARTS_PARAMS) {
  const index_t z = (index_t)get_group_id(2) / n_parts, tile_m = (index_t)get_group_id(1) * TILE,
                tile_n = (index_t)get_group_id(0) * TILE;
  const product at = PRODUCT_AT(z);
  const int item = (int)get_local_id(0), lane = item % WARP, warp = item / WARP;
  const int warp_m = warp / WARPS_N * BLOCKS_M * 16, warp_n = warp % WARPS_N * BLOCKS_N * 8;
  const index_t begin = (index_t)get_group_id(2) % n_parts * part_depth,
                end = min(begin + part_depth, at.depth);
  const operand from_a = ROWS_OF_A(at, tile_m, end, A_ORDER),
                from_b = COLUMNS_OF_B(at, tile_n, end, B_ORDER);
  __local uint as[TILE * PITCH], bs[TILE * PITCH];
  MMA_MEMORY(memory, WARPS_M * WARPS_N);
  uint4 next_a[WORDS], next_b[WORDS];
  float part[BLOCKS_M][BLOCKS_N][4] = {{{0}}}, sum[BLOCKS_M][BLOCKS_N][4] = {{{0}}};
  fetch_stage(&from_a, begin, item, next_a);
  fetch_stage(&from_b, begin, item, next_b);
  for (index_t k0 = begin; k0 < end; k0 += DEPTH) {
    store_stage(&from_a, item, next_a, as);
    store_stage(&from_b, item, next_b, bs);
    barrier(CLK_LOCAL_MEM_FENCE);
    fetch_stage(&from_a, k0 + DEPTH, item, next_a);
    fetch_stage(&from_b, k0 + DEPTH, item, next_b);
    add_products(as + warp_m * PITCH, bs + warp_n * PITCH, MEMORY_OF_WARP(memory, warp), lane,
                 part);
    if ((k0 + DEPTH) % CHAIN == 0) end_chain(part, sum);
    barrier(CLK_LOCAL_MEM_FENCE);
  }
  end_chain(part, sum);

  out += out_offset + at.out;
  bias += bias_offset + strided_offset(z, batch_dims, bias_batch);
  const index_t m0 = tile_m + warp_m + lane / 4, n0 = tile_n + warp_n + lane % 4 * 2;
#pragma unroll
  for (int i = 0; i < BLOCKS_M * BLOCKS_N * 4; i++) {
    const index_t m = m0 + i / 4 / BLOCKS_N * 16 + i % 4 / 2 * 8,
                  n = n0 + i / 4 % BLOCKS_N * 8 + i % 2;
    if (m >= at.rows || n >= n_size) continue;
    const float v = sum[i / 4 / BLOCKS_N][i / 4 % BLOCKS_N][i % 4];
#if IN_PARTS
    parts[PART_AT(at, m, n)] = v;
#else
    STORE(OUT_TYPE, out, m * n_size + n, finish(v, bias, m * bias_m + n * bias_n, alpha, beta));
#endif
  }
#if !IN_PARTS
  for (int i = 0; i < BLOCKS_M * BLOCKS_N * 2; i++) { /* pairs of neighbours */
    const index_t m = m0 + i / 2 / BLOCKS_N * 16 + i % 2 * 8, n = n0 + i / 2 % BLOCKS_N * 8;
    if (m < at.rows && n < n_size)
      EPILOGUE(out + m * n_size + n, (index_t)at.out + m * n_size + n,
               (int)min((index_t)2, n_size - n));
  }
#endif
}
