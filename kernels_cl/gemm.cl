/* out[z][m][n] = alpha * sum_k a[z][m][k] * b[z][k][n] + beta * bias[z][m][n] on a CPU, for floats
 * up to f32.
 *
 * gemm_pack writes a as [z][k block][panel of ROWS rows][k][ROWS]. In gemm, a work-item owns
 * `strip` columns of out and some panels of rows. Per block of DEPTH k it packs its part of b into
 * local memory as [panel of 2 WIDTH columns][k] [2 WIDTH], so that a panel stays in the first-level
 * cache, and runs the panels of a past it: ROWS x 2 accumulators of WIDTH floats, one broadcast and
 * two multiply-adds a step. Between blocks the sums wait in `sums` (out itself for f32). */
#include "common.h"
#ifndef A_TYPE
#define A_TYPE F32
#define B_TYPE F32
#define OUT_TYPE F32
#define BIAS_TYPE F32
#define HAS_BIAS 0
#endif
#ifndef WIDTH
#define WIDTH 16 /* floats of a register */
#endif
#ifndef B_ORDER
#define B_ORDER 0 /* 0: n is contiguous, 1: k is, 2: neither */
#endif
#ifndef A_ORDER
#define A_ORDER 1 /* 1: k is contiguous */
#endif
#if WIDTH == 8
#define ROWS 6 /* 12 of 16 registers */
#else
#define ROWS 8 /* 16 of 32 registers */
#endif
#define COLUMNS (2 * WIDTH)
#define DEPTH 256
#define CHAIN                                                                                     \
  64 /* additions in a row before their sum is added to the total: what bounds the rounding error \
      */

#define floatw PASTE(float, WIDTH)
#define vloadw PASTE(vload, WIDTH)
#define vstorew PASTE(vstore, WIDTH)

__kernel void gemm_pack(__global const STORAGE(A_TYPE) * a, const long a_offset,
                        const index8 a_batch, const index8 batch_dims, const index_t a_m,
                        const index_t a_k, __global float *packed, const long packed_offset,
                        const index_t m_size, const index_t k_size) {
  const index_t panel = (index_t)get_global_id(0), block = (index_t)get_global_id(1),
                z = (index_t)get_global_id(2);
  const index_t padded = (index_t)get_global_size(0) * ROWS, k0 = block * DEPTH;
  const int depth = (int)min((index_t)DEPTH, k_size - k0);
  packed +=
      packed_offset + (long)z * padded * k_size + (long)k0 * padded + (long)panel * ROWS * depth;
  a += a_offset + strided_offset(z, batch_dims, a_batch) + k0 * a_k;
  for (int r = 0; r < ROWS; r++) {
    const index_t m = panel * ROWS + r;
    __global const STORAGE(A_TYPE) *row = a + min(m, m_size - 1) * a_m;
    if (m >= m_size) {
      for (int k = 0; k < depth; k++) packed[k * ROWS + r] = 0;
    } else {
#if A_ORDER == 1
      for (int k = 0; k < depth; k++) packed[k * ROWS + r] = LOADF(A_TYPE, row, k);
#else
      for (int k = 0; k < depth; k++) packed[k * ROWS + r] = LOADF(A_TYPE, row, k * a_k);
#endif
    }
  }
}

#if WIDTH >= 8 && B_ORDER == 1
/* Blocks of n lanes: the odd ones of a change places with the even ones of b. */
#define SWAP(n, a, b)                  \
  {                                    \
    const float16 low = EVEN##n(a, b); \
    b = ODD##n(a, b);                  \
    a = low;                           \
  }
#define EVEN8(a, b) (float16)(a.lo, b.lo)
#define ODD8(a, b) (float16)(a.hi, b.hi)
#define EVEN4(a, b) (float16)(a.s0123, b.s0123, a.s89ab, b.s89ab)
#define ODD4(a, b) (float16)(a.s4567, b.s4567, a.scdef, b.scdef)
#define EVEN2(a, b) (float16)(a.s01, b.s01, a.s45, b.s45, a.s89, b.s89, a.scd, b.scd)
#define ODD2(a, b) (float16)(a.s23, b.s23, a.s67, b.s67, a.sab, b.sab, a.sef, b.sef)
#define EVEN1(a, b)                                                                             \
  (float16)(a.s0, b.s0, a.s2, b.s2, a.s4, b.s4, a.s6, b.s6, a.s8, b.s8, a.sa, b.sa, a.sc, b.sc, \
            a.se, b.se)
#define ODD1(a, b)                                                                              \
  (float16)(a.s1, b.s1, a.s3, b.s3, a.s5, b.s5, a.s7, b.s7, a.s9, b.s9, a.sb, b.sb, a.sd, b.sd, \
            a.sf, b.sf)

/* 16 columns (contiguous in k) by 16 k at b into to[k * COLUMNS + column]. */
static inline void transpose16(__global const STORAGE(B_TYPE) * b, index_t b_n, __local float *to) {
  float16 r[16];
#pragma unroll
  for (int i = 0; i < 16; i++) r[i] = LOAD16F(B_TYPE, b + i * b_n);
#pragma unroll
  for (int i = 0; i < 8; i++) SWAP(8, r[i], r[i + 8])
#pragma unroll
  for (int i = 0; i < 8; i++) SWAP(4, r[i / 4 * 8 + i % 4], r[i / 4 * 8 + i % 4 + 4])
#pragma unroll
  for (int i = 0; i < 8; i++) SWAP(2, r[i / 2 * 4 + i % 2], r[i / 2 * 4 + i % 2 + 2])
#pragma unroll
  for (int i = 0; i < 8; i++) SWAP(1, r[2 * i], r[2 * i + 1])
#pragma unroll
  for (int i = 0; i < 16; i++) vstore16(r[i], 0, to + i * COLUMNS);
}
#endif

/* Columns [0, n) of depth rows of b into `to`, columns up to a multiple of COLUMNS zero. */
static inline void pack_b(__global const STORAGE(B_TYPE) * b, index_t b_k, index_t b_n, int n,
                          int depth, __local float *to) {
  for (int n0 = 0; n0 < n; n0 += COLUMNS, to += COLUMNS * depth) {
    const int count = min(COLUMNS, n - n0);
#if B_ORDER == 0
    if (count == COLUMNS) {
      for (int k = 0; k < depth; k++)
        for (int j = 0; j < COLUMNS; j++) to[k * COLUMNS + j] = LOADF(B_TYPE, b, k * b_k + n0 + j);
      continue;
    }
#endif
    int k0 = 0; /* rows that are done */
#if WIDTH >= 8 && B_ORDER == 1
    if (count == COLUMNS)
      for (; k0 + 16 <= depth; k0 += 16)
        for (int j = 0; j < COLUMNS; j += 16)
          transpose16(b + (n0 + j) * b_n + k0, b_n, to + k0 * COLUMNS + j);
#endif
    for (int j = 0; j < COLUMNS && k0 < depth; j++) {
      __global const STORAGE(B_TYPE) *column = b + (index_t)(n0 + min(j, count - 1)) * b_n;
      for (int k = k0; k < depth; k++) {
#if B_ORDER == 1
        to[k * COLUMNS + j] = LOADF(B_TYPE, column, k);
#else
        to[k * COLUMNS + j] = LOADF(B_TYPE, column, k * b_k);
#endif
      }
    }
  }
}

/* tile (ROWS, COLUMNS) = a panel of a (depth, ROWS) by a panel of b (depth, COLUMNS). */
static inline void multiply_panels(__global const float *a, __local const float *b, int depth,
                                   float *tile) {
  for (int i = 0; i < ROWS * 2; i++) vstorew((floatw)0, i, tile);
  for (int k0 = 0; k0 < depth; k0 += CHAIN) {
    const int k1 = min(k0 + CHAIN, depth);
    floatw c0[ROWS], c1[ROWS];
#pragma unroll
    for (int r = 0; r < ROWS; r++) c0[r] = c1[r] = 0;
    for (int k = k0; k < k1; k++) {
      const floatw x = vloadw(0, b), y = vloadw(1, b);
#pragma unroll
      for (int r = 0; r < ROWS; r++) {
        c0[r] = fma((floatw)a[r], x, c0[r]);
        c1[r] = fma((floatw)a[r], y, c1[r]);
      }
      a += ROWS;
      b += COLUMNS;
    }
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
      vstorew(c0[r] + vloadw(2 * r, tile), 2 * r, tile);
      vstorew(c1[r] + vloadw(2 * r + 1, tile), 2 * r + 1, tile);
    }
  }
}

/* Columns [0, n) of a row of a tile to out, with what the blocks of k before (unless first) left in
 * sums; unless last, to sums instead. */
static inline void store_row(float *row, int n, bool first, bool last, __global float *sums,
                             __global STORAGE(OUT_TYPE) * out, float alpha, float beta,
                             __global const STORAGE(BIAS_TYPE) * bias, index_t bias_n) {
  if (!first)
    for (int j = 0; j < n; j++) row[j] += sums[j];
  if (!last) {
    for (int j = 0; j < n; j++) sums[j] = row[j];
    return;
  }
#if HAS_BIAS
  for (int j = 0; j < n; j++)
    STORE(OUT_TYPE, out, j, alpha * row[j] + beta * LOADF(BIAS_TYPE, bias, j * bias_n));
#else
  for (int j = 0; j < n; j++) STORE(OUT_TYPE, out, j, alpha * row[j]);
#endif
}

/* a_stride: elements from one packed matrix to the next; 0: all batches have the same. */
__kernel void gemm(__global const float *a, const long a_offset, const long a_stride,
                   __global const STORAGE(B_TYPE) * b, const long b_offset, const index8 b_batch,
                   const index_t b_k, const index_t b_n, __global const STORAGE(BIAS_TYPE) * bias,
                   const long bias_offset, const index8 bias_batch, const index_t bias_m,
                   const index_t bias_n, __global STORAGE(OUT_TYPE) * out, const long out_offset,
                   __global float *sums, const long sums_offset, const index8 batch_dims,
                   const index_t m_size, const index_t n_size, const index_t k_size,
                   const index_t panels_each, const index_t strip, const float alpha,
                   const float beta, __local float *packed) {
  const index_t n0 = (index_t)get_global_id(0) * strip, z = (index_t)get_global_id(2);
  const index_t panels = (m_size + ROWS - 1) / ROWS, padded = panels * ROWS;
  const index_t first = (index_t)get_global_id(1) * panels_each,
                last = min(first + panels_each, panels);
  const int width = (int)min(strip, n_size - n0);
  a += a_offset + z * a_stride;
  b += b_offset + strided_offset(z, batch_dims, b_batch) + n0 * b_n;
  out += out_offset + (long)z * m_size * n_size + n0;
  sums += sums_offset + (long)z * m_size * n_size + n0;
  bias += bias_offset + strided_offset(z, batch_dims, bias_batch) + n0 * bias_n;

  for (index_t k0 = 0; k0 < k_size; k0 += DEPTH) {
    const int depth = (int)min((index_t)DEPTH, k_size - k0);
    pack_b(b + k0 * b_k, b_k, b_n, width, depth, packed);
    for (int j0 = 0; j0 < width; j0 += COLUMNS)
      for (index_t panel = first; panel < last; panel++) {
        float tile[ROWS * COLUMNS];
        multiply_panels(a + (long)k0 * padded + (long)panel * ROWS * depth, packed + j0 * depth,
                        depth, tile);
        const int rows = (int)min((index_t)ROWS, m_size - panel * ROWS),
                  columns = min(COLUMNS, width - j0);
        for (int r = 0; r < rows; r++) {
          const index_t m = panel * ROWS + r, at = m * n_size + j0;
          store_row(tile + r * COLUMNS, columns, k0 == 0, k0 + depth == k_size, sums + at, out + at,
                    alpha, beta, bias + m * bias_m + j0 * bias_n, bias_n);
        }
      }
  }
}
