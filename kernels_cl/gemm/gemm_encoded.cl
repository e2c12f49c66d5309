/* The gemm of gemm.cl for an encoded b (n, k), which is decoded to local memory. */
#include "encoded.h"
#include "gemm.h"

/* Decodes columns [0, n) of `depth` k from part `first` on into `to`. n is rounded up to a multiple
 * of COLUMNS by repeating the last column. */
static inline void decode_panels(code_bytes rows, long row_bytes, long scales_at, index_t groups,
                                 index_t group, index_t first, int n, int depth,
                                 __local float *to) {
  for (int n0 = 0; n0 < n; n0 += COLUMNS, to += COLUMNS * depth)
#if WIDTH >= 8
    for (int k0 = 0; k0 < depth; k0 += PART)
      for (int j = 0; j < COLUMNS; j += 16) {
        float x[16 * PART];
        for (int i = 0; i < 16; i++)
          decode_part(rows + min(n0 + j + i, n - 1) * row_bytes, first + k0 / PART, scales_at,
                      groups, group, x + i * PART);
        for (int k = 0; k < PART; k += 16) {
          if (k0 + k + 16 <= depth) {
            float16 r[16];
#pragma unroll
            for (int i = 0; i < 16; i++) r[i] = vload16(0, x + i * PART + k);
            store_transposed(r, to + (k0 + k) * COLUMNS + j);
          } else {
            for (int i = 0; i < 16; i++)
              for (int kk = k; k0 + kk < depth && kk < k + 16; kk++)
                to[(k0 + kk) * COLUMNS + j + i] = x[i * PART + kk];
          }
        }
      }
#else
    for (int j = 0; j < COLUMNS; j++)
      for (int k0 = 0; k0 < depth; k0 += PART) {
        float x[PART];
        decode_part(rows + min(n0 + j, n - 1) * row_bytes, first + k0 / PART, scales_at, groups,
                    group, x);
        for (int k = 0; k < PART && k0 + k < depth; k++) to[(k0 + k) * COLUMNS + j] = x[k];
      }
#endif
}

__kernel void gemm_encoded(PANELS_PARAMS, ENCODED_PARAMS, __local float *packed) {
  const index_t n0 = (index_t)get_global_id(0) * strip, z = (index_t)get_global_id(2);
  const index_t panels = (m_size + ROWS - 1) / ROWS;
  const index_t first = (index_t)get_global_id(1) * panels_each,
                last = min(first + panels_each, panels);
  const int width = (int)min(strip, n_size - n0);
  a += a_offset + z * a_stride;
  codes += codes_offset + n0 * row_bytes;
  out += out_offset + (long)z * m_size * n_size + n0;
  sums += sums_offset + (long)z * m_size * n_size + n0;
  bias += bias_offset + strided_offset(z, batch_dims, bias_batch) + n0 * bias_n;

  for (index_t k0 = 0; k0 < k_size; k0 += DEPTH) {
    const int depth = (int)min((index_t)DEPTH, k_size - k0);
    decode_panels(codes, row_bytes, scales_at, groups, group, k0 / PART, width, depth, packed);
    for (int j0 = 0; j0 < width; j0 += COLUMNS) {
      multiply_column(a, packed + j0 * depth, 0, min(COLUMNS, width - j0), first, last, k0, depth,
                      m_size, n_size, k_size, sums + j0, out + j0, alpha, beta, bias + j0 * bias_n,
                      bias_m, bias_n);
      if (k0 + depth == k_size) EPILOGUE_COLUMNS(out + j0, z, n0 + j0, min(COLUMNS, width - j0));
    }
  }
}
