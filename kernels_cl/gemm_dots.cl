/* out[z][m][n] = alpha * sum_k a[z][m][k] * b[k][n] + beta * bias[z][m][n] on a CPU, for a packed
 * in tiles of dots.h and a b in panels of codes. Products within a span of a part are added as
 * integers, which are scaled and added in the order of parts, in f32: what computes the integers
 * changes no bit, nor do M and PANELS. A work-item makes `rows` rows of `each` times PANELS panels,
 * whose sums (rows / M, PANELS, M, PANEL) wait in local memory, `depth` parts at a time. */
#include "dots.h"
#pragma OPENCL FP_CONTRACT OFF
#ifndef OUT_TYPE
#define OUT_TYPE F32
#define BIAS_TYPE F32
#define HAS_BIAS 0
#endif
#ifndef PANELS
#define PANELS 1
#endif
#define SUMS (PANELS * M)

/* sum (PANELS, M) += q * (code + LEAST) over a span of a part, which begins at panel[p] + at. */
#if DOTS == DOTS_PORTABLE
typedef float16 sums16;
#define TO_FLOAT(x) (x)
#define FIRST_SUM(x) 0
static inline void sum_span(__global const int *a, __global const uchar *const *panel, long at,
                            int span, sums16 *sum) {
  __global const float *q = (__global const float *)a;
#pragma unroll 1
  for (int v = span * VECTORS / SPANS; v < (span + 1) * VECTORS / SPANS; v++) {
    uint16 w[PANELS];
#pragma unroll
    for (int p = 0; p < PANELS; p++) w[p] = vload16(v, (__global const uint *)(panel[p] + at));
#pragma unroll
    for (int j = 0; j < CODES; j++)
#pragma unroll
      for (int p = 0; p < PANELS; p++) {
        const float16 x = CODE_OF(w[p], j);
#pragma unroll
        for (int m = 0; m < M; m++)
          sum[p * M + m] = fma((float16)q[(v * CODES + j) * M + m], x, sum[p * M + m]);
      }
  }
}
#else
typedef int16 sums16;
#define TO_FLOAT(x) convert_float16(x)
#define FIRST_SUM(x) (HAS_LOWS ? 0 : (x))
static inline void sum_span(__global const int *a, __global const uchar *const *panel, long at,
                            int span, sums16 *sum) {
#pragma unroll
  for (int v = span * VECTORS / SPANS; v < (span + 1) * VECTORS / SPANS; v++) {
    uint16 w[PANELS];
#pragma unroll
    for (int p = 0; p < PANELS; p++) w[p] = vload16(v, (__global const uint *)(panel[p] + at));
#if CODE_BITS == 8
#pragma unroll
    for (int m = 0; m < M; m++)
#pragma unroll
      for (int p = 0; p < PANELS; p++)
        sum[p * M + m] = add_dots(sum[p * M + m], w[p], a[v * M + m]);
#else
#pragma unroll
    for (int m = 0; m < M; m++)
#pragma unroll
      for (int p = 0; p < PANELS; p++)
        sum[p * M + m] = add_dots(sum[p * M + m], w[p] & 0x0f0f0f0fu, a[2 * v * M + m]);
#pragma unroll
    for (int m = 0; m < M; m++)
#pragma unroll
      for (int p = 0; p < PANELS; p++)
        sum[p * M + m] = add_dots(sum[p * M + m], w[p] >> 4u & 0x0f0f0f0fu, a[(2 * v + 1) * M + m]);
#endif
  }
}
#endif

/* sums += a tile, n parts, by those of PANELS panels from `first` on; panels behind the last repeat
 * it. */
static inline void multiply_dots(__global const int *a, __global const uchar *b, long panel_bytes,
                                 int last, long d_at, long m_at, long s_at, long l_at,
                                 index_t period, index_t first, int n, __local float *sums) {
  float16 total[SUMS];
  __global const uchar *panel[PANELS];
#pragma unroll
  for (int p = 0; p < PANELS; p++) panel[p] = b + min(p, last) * panel_bytes;
#pragma unroll
  for (int i = 0; i < SUMS; i++) total[i] = vload16(i, sums);
  index_t number = first * SPANS / period, left = (number + 1) * period - first * SPANS;
  for (int part = 0; part < n; part++, a += TILE_WORDS) {
    __global const float *scales = (__global const float *)(a + WORDS * M);
#pragma unroll
    for (int span = 0; span < SPANS; span++, left--) {
      if (left == 0) {
        number++;
        left = period;
      }
      __global const int *a_sums = a + (WORDS + 1 + span) * M;
      sums16 sum[SUMS];
#pragma unroll
      for (int i = 0; i < SUMS; i++) sum[i] = FIRST_SUM(a_sums[i % M]);
      sum_span(a, panel, (long)(first + part) * PART_BYTES, span, sum);
#pragma unroll
      for (int p = 0; p < PANELS; p++) {
        const float16 scale = span_scale(panel[p], d_at, s_at, number, first + part, span);
#pragma unroll
        for (int m = 0; m < M; m++)
          total[p * M + m] = fma(TO_FLOAT(sum[p * M + m]), scale * scales[m], total[p * M + m]);
#if HAS_LOWS
        const float16 low = span_low(panel[p], m_at, l_at, number, first + part, span);
#pragma unroll
        for (int m = 0; m < M; m++)
          total[p * M + m] = fma((float16)as_float(a_sums[m]), low, total[p * M + m]);
#endif
      }
    }
  }
#pragma unroll
  for (int i = 0; i < SUMS; i++) vstore16(total[i], i, sums);
}

__kernel void gemm_dots(__global const int *a, const long a_offset, CODES_PARAMS,
                        __global const STORAGE(BIAS_TYPE) * bias, const long bias_offset,
                        const index8 bias_batch, const index_t bias_m, const index_t bias_n,
                        __global STORAGE(OUT_TYPE) * out, const long out_offset,
                        const index8 batch_dims, const index_t m_size, const index_t n_size,
                        const index_t rows, const index_t each, const index_t depth,
                        const float alpha, const float beta, __local float *sums) {
  const index_t z = (index_t)get_global_id(2), panels = (n_size + PANEL - 1) / PANEL,
                first = (index_t)get_global_id(0) * each * PANELS,
                last = min(first + each * PANELS, panels);
  const index_t m0 = (index_t)get_global_id(1) * rows, tiles = (m_size + M - 1) / M;
  const int count = (int)min(rows, m_size - m0), n_tiles = (count + M - 1) / M;
  a += a_offset + ((long)z * tiles + m0 / M) * parts * TILE_WORDS;
  b += b_offset;
  bias += bias_offset + strided_offset(z, batch_dims, bias_batch) + m0 * bias_m;
  out += out_offset + ((long)z * m_size + m0) * n_size;
  for (index_t p = first; p < last; p += PANELS) {
    const index_t n0 = p * PANEL;
    const int columns = (int)min((index_t)(PANELS * PANEL), n_size - n0);
    for (int i = 0; i < n_tiles * SUMS * PANEL; i++) sums[i] = 0;
    for (index_t part = 0; part < parts; part += depth)
      for (int t = 0; t < n_tiles; t++)
        multiply_dots(a + ((long)t * parts + part) * TILE_WORDS, b + (long)p * panel_bytes,
                      panel_bytes, (int)(panels - 1 - p), d_at, m_at, s_at, l_at, period, part,
                      (int)min(depth, parts - part), sums + t * SUMS * PANEL);
    for (int m = 0; m < count; m++) {
      __local const float *sum = sums + (m / M * SUMS + m % M) * PANEL;
      for (int j = 0; j < columns; j++) {
        float v = alpha * sum[j / PANEL * M * PANEL + j % PANEL];
#if HAS_BIAS
        v += beta * LOADF(BIAS_TYPE, bias, m * bias_m + (n0 + j) * bias_n);
#endif
        STORE(OUT_TYPE, out, m * n_size + n0 + j, v);
      }
      EPILOGUE(out + m * n_size + n0, (z * m_size + m0 + m) * n_size + n0, columns);
    }
  }
}
