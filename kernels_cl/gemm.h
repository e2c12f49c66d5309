/* What the CPU's GEMMs share: the tile of sums, and packing of b as [panel of COLUMNS columns][k]
 * [COLUMNS]. */
#include "common.h"
#include "pairs.h"
#ifndef A_TYPE
#define A_TYPE F32
#define OUT_TYPE F32
#define BIAS_TYPE F32
#define HAS_BIAS 0
#endif
#ifndef B_TYPE
#define B_TYPE F32
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
#ifndef B_PACKED
#define B_PACKED 0
#endif
#if WIDTH == 8
#define ROWS 6 /* 12 of 16 registers */
#else
#define ROWS 8 /* 16 of 32 registers */
#endif
#define COLUMNS (2 * WIDTH)
#define DEPTH 256
#define LINE 16 /* floats of a line of a cache */
#define CHAIN                                                                                     \
  64 /* additions in a row before their sum is added to the total: what bounds the rounding error \
      */

#define floatw PASTE(float, WIDTH)
#define vloadw PASTE(vload, WIDTH)
#define vstorew PASTE(vstore, WIDTH)
#define LOADWF(T, p) PASTE(PASTE(LOAD, WIDTH), F)(T, p)

/* What is multiplied but b; a is packed. a_stride: elements from one packed matrix to the next; 0:
 * all batches have the same. */
#define PANELS_PARAMS                                                                            \
  __global const float *a, const long a_offset, const long a_stride,                             \
      __global const STORAGE(BIAS_TYPE) * bias, const long bias_offset, const index8 bias_batch, \
      const index_t bias_m, const index_t bias_n, __global STORAGE(OUT_TYPE) * out,              \
      const long out_offset, __global float *sums, const long sums_offset,                       \
      const index8 batch_dims, const index_t m_size, const index_t n_size, const index_t k_size, \
      const index_t panels_each, const index_t strip, const float alpha, const float beta

#if B_PACKED && IS_F32(B_TYPE)
#define B_SPACE __global
#else
#define B_SPACE __local
#endif

#if WIDTH >= 8
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

/* r[i]: 16 neighbours in k of column i; to to[k * COLUMNS + column]. */
static inline void store_transposed(float16 *r, __local float *to) {
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

/* tile (ROWS, COLUMNS) = a panel of a (depth, ROWS) by a panel of b (depth, COLUMNS). */
static inline void multiply_panels(__global const float *a, B_SPACE const float *b, int depth,
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
        c0[r] = ADD_PRODUCT(c0[r], (floatw)a[r], x);
        c1[r] = ADD_PRODUCT(c1[r], (floatw)a[r], y);
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

/* Behind multiply_column of the last block of k, in a kernel with PANELS_PARAMS: out is column n of
 * product z. */
#define EPILOGUE_COLUMNS(out, z, n, columns)                        \
  for (index_t m = first * ROWS; m < min(last * ROWS, m_size); m++) \
  EPILOGUE((out) + m * n_size, ((z)*m_size + m) * n_size + (n), columns)

/* Panels [first, last) of a by one panel of b, of which `columns` are there, `depth` k from k0 on.
 * next: what is read after that panel, asked for meanwhile, some lines with each panel of a; or 0.
 */
static inline void multiply_column(__global const float *a, B_SPACE const float *b,
                                   __global const float *next, int columns, index_t first,
                                   index_t last, index_t k0, int depth, index_t m_size,
                                   index_t n_size, index_t k_size, __global float *sums,
                                   __global STORAGE(OUT_TYPE) * out, float alpha, float beta,
                                   __global const STORAGE(BIAS_TYPE) * bias, index_t bias_m,
                                   index_t bias_n) {
  const index_t padded = (m_size + ROWS - 1) / ROWS * ROWS;
  const int share = (depth * COLUMNS / LINE + (int)(last - first) - 1) / (int)(last - first);
  for (index_t panel = first; panel < last; panel++) {
    float tile[ROWS * COLUMNS];
    for (int i = 0; next && i < share; i++, next += LINE) ASK_FOR(next);
    for (int r = 0; r < ROWS; r++) /* sums of a column of panels are far apart in memory */
      for (int at = 0; at < COLUMNS; at += LINE) ASK_FOR(sums + (panel * ROWS + r) * n_size + at);
    multiply_panels(a + (long)k0 * padded + (long)panel * ROWS * depth, b, depth, tile);
    const int rows = (int)min((index_t)ROWS, m_size - panel * ROWS);
    for (int r = 0; r < rows; r++) {
      const index_t m = panel * ROWS + r;
      store_row(tile + r * COLUMNS, columns, k0 == 0, k0 + depth == k_size, sums + m * n_size,
                out + m * n_size, alpha, beta, bias + m * bias_m, bias_n);
    }
  }
}
