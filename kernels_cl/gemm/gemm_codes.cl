/* The gemm of gemm.cl for a b in panels of codes, which are decoded to floats in local memory. */
#include "codes.h"
#include "gemm.h"

/* Decodes columns [0, n) of `depth` k from part `first` on into `to`, as panels of COLUMNS. PANEL
 * is a multiple or a divisor of COLUMNS. */
static inline void widen_codes(__global const uchar *b, long panel_bytes, index_t first, int n,
                               int depth, __local float *to) {
  for (int n0 = 0; n0 < n; n0 += PANEL, b += panel_bytes) {
    __local float *column = to + n0 / COLUMNS * COLUMNS * depth + n0 % COLUMNS;
    for (int k0 = 0; k0 < depth; k0 += PART) {
      __global const uchar *block = BLOCK_OF(b, first + k0 / PART);
      const int part = (int)((first + k0 / PART) % BLOCK);
      __global const uint *words = (__global const uint *)(block + part * PART_BYTES);
#pragma unroll
      for (int v = 0; v < VECTORS; v++) {
        const uint16 w = vload16(v, words);
        const int span = part * SPANS + v * SPANS / VECTORS;
        const float16 scale = span_scale(block, span);
#if HAS_LOWS
        const float16 low = span_low(block, span);
#else
        const float16 low = -0.0f;
#endif
#pragma unroll
        for (int j = 0; j < CODES; j++) {
          const int k = k0 + v * CODES + j;
          if (k < depth) vstore16(FMA(CODE_OF(w, j), scale, low), 0, column + k * COLUMNS);
        }
      }
    }
  }
}

__kernel void gemm_codes(PANELS_PARAMS, CODES_PARAMS, __local float *packed) {
  const index_t n0 = (index_t)get_global_id(0) * strip, z = (index_t)get_global_id(2);
  const index_t panels = (m_size + ROWS - 1) / ROWS;
  const index_t first = (index_t)get_global_id(1) * panels_each,
                last = min(first + panels_each, panels);
  const int width = (int)min(strip, n_size - n0);
  (void)parts;
  a += a_offset + z * a_stride;
  b += b_offset + n0 / PANEL * panel_bytes;
  out += out_offset + (long)z * m_size * n_size + n0;
  sums += sums_offset + (long)z * m_size * n_size + n0;
  bias += bias_offset + strided_offset(z, batch_dims, bias_batch) + n0 * bias_n;

  for (index_t k0 = 0; k0 < k_size; k0 += DEPTH) {
    const int depth = (int)min((index_t)DEPTH, k_size - k0);
    widen_codes(b, panel_bytes, k0 / PART, width, depth, packed);
    for (int j0 = 0; j0 < width; j0 += COLUMNS) {
      multiply_column(a, packed + j0 * depth, 0, min(COLUMNS, width - j0), first, last, k0, depth,
                      m_size, n_size, k_size, sums + j0, out + j0, alpha, beta, bias + j0 * bias_n,
                      bias_m, bias_n);
      if (k0 + depth == k_size) EPILOGUE_COLUMNS(out + j0, z, n0 + j0, min(COLUMNS, width - j0));
    }
  }
}
