/* out[z][m][n] = alpha * sum_k a[z][m][k] * b[z][k][n] + beta * bias[z][m][n] on a CPU, for floats
 * up to f32.
 *
 * gemm_pack writes a as [z][k block][panel of ROWS rows][k][ROWS]. In gemm, a work-item computes
 * `strip` columns of out and some panels of rows. Per block of DEPTH k it packs its part of b into
 * local memory as [panel of 2 WIDTH columns][k][2 WIDTH], so that a panel stays in the first-level
 * cache. It then multiplies the panels of a by it: ROWS x 2 accumulators of WIDTH floats, one
 * broadcast and two multiply-adds per step. Between blocks the sums are stored in `sums` (out
 * itself for f32), or with SUMS_LOCAL in local memory, as (row, column of the strip), because rows
 * of out are a page apart. B_PACKED: b is in the panels of gemm_panels.cl, which are read in place
 * or converted to floats in local memory. */
#include "gemm.h"
#include "matmul.h"

#if WIDTH == 16 && A_ORDER == 1
/* Packs 16 k of ROWS rows to to[k * ROWS + row]. */
static inline void pack_16(__global const STORAGE(A_TYPE) * a, index_t a_m, __global float *to) {
  float16 r[ROWS];
#pragma unroll
  for (int i = 0; i < ROWS; i++) r[i] = LOAD16F(A_TYPE, a + i * a_m);
#pragma unroll
  for (int i = 0; i < 4; i++) SWAP(4, r[i], r[i + 4])
#pragma unroll
  for (int i = 0; i < 4; i++) SWAP(2, r[i / 2 * 4 + i % 2], r[i / 2 * 4 + i % 2 + 2])
#pragma unroll
  for (int i = 0; i < 4; i++) SWAP(1, r[2 * i], r[2 * i + 1])
#pragma unroll
  for (int i = 0; i < ROWS; i++) {
    vstore8(r[i].lo, i, to);
    vstore8(r[i].hi, i + 8, to);
  }
}
#endif

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
  int from = 0; /* number of k packed so far */
#if WIDTH == 16 && A_ORDER == 1
  if ((panel + 1) * ROWS <= m_size)
    for (; from + 16 <= depth; from += 16)
      pack_16(a + panel * ROWS * a_m + from, a_m, packed + from * ROWS);
#endif
  for (int r = 0; r < ROWS && from < depth; r++) {
    const index_t m = panel * ROWS + r;
    __global const STORAGE(A_TYPE) *row = a + min(m, m_size - 1) * a_m;
    if (m >= m_size) {
      for (int k = from; k < depth; k++) packed[k * ROWS + r] = 0;
    } else {
#if A_ORDER == 1
      for (int k = from; k < depth; k++) packed[k * ROWS + r] = LOADF(A_TYPE, row, k);
#else
      for (int k = from; k < depth; k++) packed[k * ROWS + r] = LOADF(A_TYPE, row, k * a_k);
#endif
    }
  }
}

#if WIDTH >= 8 && B_ORDER == 1
/* Packs 16 columns (contiguous in k) by 16 k at b to to[k * COLUMNS + column]. */
static inline void transpose16(__global const STORAGE(B_TYPE) * b, index_t b_n, __local float *to) {
  float16 r[16];
#pragma unroll
  for (int i = 0; i < 16; i++) r[i] = LOAD16F(B_TYPE, b + i * b_n);
  store_transposed(r, to);
}
#endif

/* Packs columns [0, n) of `depth` rows of b into `to`, zero-padded to a multiple of COLUMNS. */
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
    int k0 = 0; /* number of rows packed so far */
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

/* Converts `depth` k of packed panels, which have k_size k each, to floats in `to`. */
static inline void widen_panels(__global const STORAGE(B_TYPE) * b, index_t k_size, int n,
                                int depth, __local float *to) {
  for (int n0 = 0; n0 < n; n0 += COLUMNS, to += COLUMNS * depth, b += COLUMNS * (long)k_size)
    for (int i = 0; i < COLUMNS * depth; i += WIDTH) vstorew(LOADWF(B_TYPE, b + i), 0, to + i);
}

/* memory: DEPTH * strip floats for b, unless it is read in place, then the sums if SUMS_LOCAL. */
__kernel void gemm(PANELS_PARAMS, DENSE_PARAMS, __local float *memory) {
  const index_t n0 = (index_t)get_global_id(0) * strip, z = (index_t)get_global_id(2);
  const index_t panels = (m_size + ROWS - 1) / ROWS,
                first = (index_t)get_global_id(1) * panels_each,
                last = min(first + panels_each, panels);
  const int width = (int)min(strip, n_size - n0);
#if !B_PACKED || !IS_F32(B_TYPE)
  __local float *packed = memory;
  memory += DEPTH * strip;
#endif
  a += a_offset + z * a_stride;
#if B_PACKED
  b += b_offset + (long)n0 * k_size;
#else
  b += b_offset + strided_offset(z, batch_dims, b_batch) + n0 * b_n;
#endif
  out += out_offset + (long)z * m_size * n_size + n0;
  sums += sums_offset + (long)z * m_size * n_size + n0;
  bias += bias_offset + strided_offset(z, batch_dims, bias_batch) + n0 * bias_n;
  for (index_t k0 = 0; k0 < k_size; k0 += DEPTH) {
    const int depth = (int)min((index_t)DEPTH, k_size - k0);
#if !B_PACKED
    pack_b(b + k0 * b_k, b_k, b_n, width, depth, packed);
#elif !IS_F32(B_TYPE)
    widen_panels(b + (long)k0 * COLUMNS, k_size, width, depth, packed);
#endif
    for (int j0 = 0; j0 < width; j0 += COLUMNS) {
#if B_PACKED && IS_F32(B_TYPE)
      __global const float *columns_of_b = b + (long)j0 * k_size + (long)k0 * COLUMNS;
      __global const float *next = j0 + COLUMNS < width ? columns_of_b + (long)k_size * COLUMNS
                                                        : b + (long)(k0 + depth) * COLUMNS;
#else
      __global const float *next = 0;
      __local const float *columns_of_b = packed + j0 * depth;
#endif
#if SUMS_LOCAL
      add_column(a, columns_of_b, next, first, last, k0, depth, m_size, memory + j0, (int)strip);
#else
      multiply_column(a, columns_of_b, next, min(COLUMNS, width - j0), first, last, k0, depth,
                      m_size, n_size, k_size, sums + j0, out + j0, alpha, beta, bias + j0 * bias_n,
                      bias_m, bias_n);
      if (k0 + depth == k_size) EPILOGUE_COLUMNS(out + j0, z, n0 + j0, min(COLUMNS, width - j0));
#endif
    }
  }
#if SUMS_LOCAL
  for (index_t m = first * ROWS; m < min(last * ROWS, m_size); m++) {
    store_row(memory + (m - first * ROWS) * strip, width, true, true, sums, out + m * n_size, alpha,
              beta, bias + m * bias_m, bias_n);
    EPILOGUE(out + m * n_size, (z * m_size + m) * n_size + n0, width);
  }
#endif
}
