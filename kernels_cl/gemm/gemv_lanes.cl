/* out[z][m][n] = alpha * sum_k a[z][m][k] * b[z][k][n] + beta * bias[z][m][n] on GPUs for few rows
 * of a (m_size <= M), floats up to f32. Bound by reading b once, 16 bytes at a time, in its own
 * type. A group has GROUP work-items.
 *
 *   gemv_row_lanes     k is contiguous in b (a transposed weight) and in a. LANES work-items share
 *                      ROWS neighbours of n, each with its own k, 8 at a time.
 *   gemv_column_lanes  n is contiguous in b. A work-item has 8 neighbours of n; LANES work-items
 *                      cover neighbouring columns. GROUP / LANES such rows of work-items share the
 *                      rows of b. */
#include "fetch.h"
#include "matmul.h"
#include "subgroups.h"
#ifndef M
#define M 1
#endif
#ifndef ROWS
#define ROWS 4
#endif
#ifndef LANES
#define LANES 64
#endif
#define GROUP 64
#define TEAMS (GROUP / LANES)
#define SUMS (ROWS * M)
#define COLUMNS 8 /* columns per work-item */

/* Adds sums of work-items. memory: (n, GROUP). Of every `span` work-items, each of the first
 * `width` gets the sum over itself and those at distances of width, 2 width ... */
static inline void add_halves(__local float *memory, int n, int span, int width) {
  const int item = (int)get_local_id(0);
  for (int half_span = span / 2; half_span >= width; half_span /= 2) {
    barrier(CLK_LOCAL_MEM_FENCE);
    if (item % span < half_span) {
      UNROLL_AT_MOST(8)
      for (int i = 0; i < n; i++) memory[i * GROUP + item] += memory[i * GROUP + item + half_span];
    }
  }
  barrier(CLK_LOCAL_MEM_FENCE);
}

/* sums[j * M + m] += row n0 + j of from_b by row m of from_a, over this work-item's k. */
static inline void add_rows(const operand *from_a, const operand *from_b, index_t n0, int lane,
                            float *sums) {
  for (index_t k = lane * 8; k < from_b->depth; k += LANES * 8) {
    float w[ROWS][8], x[8];
#pragma unroll
    for (int j = 0; j < ROWS; j++) fetch_floats(from_b, n0 + j, k, w[j]);
#pragma unroll
    for (int m = 0; m < M; m++) {
      fetch_floats(from_a, m, k, x);
#pragma unroll
      for (int j = 0; j < ROWS; j++)
#pragma unroll
        for (int i = 0; i < 8; i++) sums[j * M + m] = FMA(w[j][i], x[i], sums[j * M + m]);
    }
  }
}

/* Adds up a team's sums. memory: (SUMS, GROUP); the totals are at the team's first work-item. */
static inline void add_lanes(const float *sums, __local float *memory) {
  const int item = (int)get_local_id(0);
#if SUBGROUPS
  const int subgroups = (int)get_num_sub_groups(), own = (int)get_sub_group_id();
#pragma unroll
  for (int i = 0; i < SUMS; i++) {
    const float partial = sub_group_reduce_add(sums[i]);
    if (get_sub_group_local_id() == 0) memory[i * GROUP + own] = partial;
  }
  barrier(CLK_LOCAL_MEM_FENCE);
  for (int i = item; i < SUMS; i += GROUP)
    for (int s = 1; s < subgroups; s++) memory[i * GROUP] += memory[i * GROUP + s];
  barrier(CLK_LOCAL_MEM_FENCE);
#else
#pragma unroll
  for (int i = 0; i < SUMS; i++) memory[i * GROUP + item] = sums[i];
  add_halves(memory, SUMS, LANES, 1);
#endif
}

__kernel void gemv_row_lanes(GEMM_PARAMS, DENSE_PARAMS) {
  __local float memory[SUMS * GROUP];
  const index_t z = (index_t)get_group_id(1);
  const product at = PRODUCT_AT(z);
  const int item = (int)get_local_id(0), lane = item % LANES, team = item / LANES;
  const index_t first = (index_t)get_group_id(0) * TEAMS * ROWS, n0 = first + team * ROWS,
                depth = at.rows > 0 ? at.depth : 0;
  const operand from_a = ROWS_OF_A(at, 0, depth, 1), from_b = COLUMNS_OF_B(at, 0, depth, 1);
  float sums[SUMS] = {0};
  add_rows(&from_a, &from_b, n0, lane, sums);
  add_lanes(sums, memory);
  bias += bias_offset + strided_offset(z, batch_dims, bias_batch);
  out += out_offset + at.out;
  for (int e = item; e < TEAMS * SUMS; e += GROUP) {
    const int column = e % (TEAMS * ROWS);
    const index_t m = e / (TEAMS * ROWS), n = first + column;
    if (m >= at.rows || n >= n_size) continue;
    const float sum = memory[(column % ROWS * M + m) * GROUP + column / ROWS * LANES];
    STORE(OUT_TYPE, out, m * n_size + n, finish(sum, bias, m * bias_m + n * bias_n, alpha, beta));
    EPILOGUE(out + m * n_size + n, (index_t)at.out + m * n_size + n, 1);
  }
}

__kernel void gemv_column_lanes(GEMM_PARAMS, DENSE_PARAMS) {
  __local float memory[M * COLUMNS * GROUP];
  const index_t z = (index_t)get_group_id(1);
  const product at = PRODUCT_AT(z);
  const int item = (int)get_local_id(0), lane = item % LANES;
  const index_t first = (index_t)get_group_id(0) * LANES * COLUMNS,
                depth = at.rows > 0 ? at.depth : 0;
  const operand from_b = COLUMNS_OF_B(at, 0, depth, 0);
  float sums[M * COLUMNS] = {0};
  a += a_offset + at.a;
  for (index_t k = item / LANES; k < depth; k += TEAMS) {
    float w[COLUMNS];
    fetch_floats(&from_b, first + lane * COLUMNS, k, w);
#pragma unroll
    for (int m = 0; m < M; m++) {
      const float x = LOADF(A_TYPE, a, min((index_t)m, at.rows - 1) * a_m + k * a_k);
#pragma unroll
      for (int j = 0; j < COLUMNS; j++) sums[m * COLUMNS + j] = FMA(w[j], x, sums[m * COLUMNS + j]);
    }
  }
#pragma unroll
  for (int i = 0; i < M * COLUMNS; i++) memory[i * GROUP + item] = sums[i];
  add_halves(memory, M * COLUMNS, GROUP, LANES);
  bias += bias_offset + strided_offset(z, batch_dims, bias_batch);
  out += out_offset + at.out;
  for (int e = item; e < M * COLUMNS * LANES; e += GROUP) {
    const int column = e % (COLUMNS * LANES);
    const index_t m = e / (COLUMNS * LANES), n = first + column;
    if (m >= at.rows || n >= n_size) continue;
    const float sum = memory[(m * COLUMNS + column % COLUMNS) * GROUP + column / COLUMNS];
    STORE(OUT_TYPE, out, m * n_size + n, finish(sum, bias, m * bias_m + n * bias_n, alpha, beta));
    EPILOGUE(out + m * n_size + n, (index_t)at.out + m * n_size + n, 1);
  }
}
