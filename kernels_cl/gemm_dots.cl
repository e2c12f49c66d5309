/* out[z][m][n] = alpha * sum_k a[z][m][k] * b[k][n] + beta * bias[z][m][n] on a CPU, for a packed
 * in tiles of dots.h and a b in panels of codes. Products within a span of a part are added as
 * integers, which are scaled and added in the order of parts, in f32: what computes the integers
 * changes no bit, nor do M and PANELS. A work-item makes `rows` rows of `each` groups of PANELS
 * panels, `strip` of them at once, a block of k at a time: what it reads of the rows stays in the
 * cache meanwhile. sums (rows, strip, PANELS, PANEL) and the factors of a block of a group
 * (BLOCK, SPANS, 1 + HAS_LOWS, PANELS, PANEL) wait in local memory. */
#include "dots.h"
#pragma OPENCL FP_CONTRACT OFF
#ifndef PANELS
#define PANELS 1
#endif
#define SUMS (PANELS * M)
#define CHAINS (SUMS <= 2 ? 2 : 1) /* independent sums, as an addition waits for the one before */
/* Bytes that each panel is asked for ahead of its use. */
#define AHEAD (PANELS == 1 ? 8192 : 2048)

/* sum (CHAINS, PANELS, M) += q * (code + LEAST) over a span of a part, which begins at panel[p] +
 * at. */
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
        for (int m = 0; m < M; m++) {
          const int i = j % CHAINS * SUMS + p * M + m;
          sum[i] = fma((float16)q[(v * CODES + j) * M + m], x, sum[i]);
        }
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
    for (int p = 0; p < PANELS; p++) {
      w[p] = vload16(v, (__global const uint *)(panel[p] + at));
      ASK_FOR(panel[p] + at + v * VECTOR_BYTES + AHEAD);
    }
#if CODE_BITS == 8
#pragma unroll
    for (int m = 0; m < M; m++)
#pragma unroll
      for (int p = 0; p < PANELS; p++) {
        const int i = v % CHAINS * SUMS + p * M + m;
        sum[i] = add_dots(sum[i], w[p], a[v * M + m]);
      }
#else
#pragma unroll
    for (int m = 0; m < M; m++)
#pragma unroll
      for (int p = 0; p < PANELS; p++)
        sum[p * M + m] = add_dots(sum[p * M + m], w[p] & 0x0f0f0f0fu, a[2 * v * M + m]);
#pragma unroll
    for (int m = 0; m < M; m++)
#pragma unroll
      for (int p = 0; p < PANELS; p++) {
        const int i = (CHAINS - 1) * SUMS + p * M + m;
        sum[i] = add_dots(sum[i], w[p] >> 4u & 0x0f0f0f0fu, a[(2 * v + 1) * M + m]);
      }
#endif
  }
}
#endif

/* Factors of n parts of a block of each panel. */
static inline void read_factors(__global const uchar *const *block, int n, __local float *to) {
#pragma unroll
  for (int p = 0; p < PANELS; p++)
    for (int at = D_AT; at < BLOCK_BYTES; at += LINE_BYTES) ASK_FOR(block[p] + at + AHEAD);
  for (int span = 0; span < n * SPANS; span++) {
#pragma unroll
    for (int p = 0; p < PANELS; p++, to += PANEL) vstore16(span_scale(block[p], span), 0, to);
#if HAS_LOWS
#pragma unroll
    for (int p = 0; p < PANELS; p++, to += PANEL) vstore16(span_low(block[p], span), 0, to);
#endif
  }
}

/* sums (M, PANELS, PANEL; ld apart) += a tile by n parts of a block of each panel. */
static inline void multiply_dots(__global const int *a, __global const uchar *const *block, int n,
                                 __local const float *factors, __local float *sums, int ld) {
  float16 total[SUMS];
#pragma unroll
  for (int i = 0; i < SUMS; i++) total[i] = vload16(i / M, sums + i % M * ld);
  for (int part = 0; part < n; part++, a += TILE_WORDS) {
    __global const float *scales = (__global const float *)(a + WORDS * M);
#pragma unroll
    for (int span = 0; span < SPANS; span++) {
      __global const int *a_sums = a + (WORDS + 1 + span) * M;
      sums16 sum[CHAINS * SUMS];
#pragma unroll
      for (int i = 0; i < CHAINS * SUMS; i++) sum[i] = i < SUMS ? FIRST_SUM(a_sums[i % M]) : 0;
      sum_span(a, block, part * PART_BYTES, span, sum);
#if CHAINS == 2
#pragma unroll
      for (int i = 0; i < SUMS; i++) sum[i] += sum[SUMS + i];
#endif
#pragma unroll
      for (int p = 0; p < PANELS; p++, factors += PANEL) {
        const float16 scale = vload16(0, factors);
#pragma unroll
        for (int m = 0; m < M; m++)
          total[p * M + m] = fma(TO_FLOAT(sum[p * M + m]), scale * scales[m], total[p * M + m]);
      }
#if HAS_LOWS
#pragma unroll
      for (int p = 0; p < PANELS; p++, factors += PANEL) {
        const float16 low = vload16(0, factors);
#pragma unroll
        for (int m = 0; m < M; m++)
          total[p * M + m] = fma((float16)as_float(a_sums[m]), low, total[p * M + m]);
      }
#endif
    }
  }
#pragma unroll
  for (int i = 0; i < SUMS; i++) vstore16(total[i], i / M, sums + i % M * ld);
}

/* sums += n_tiles tiles by a block of a group of panels, n parts from where a and b begin; panels
 * behind the last repeat it. */
static inline void multiply_block(__global const int *a, long tile_words, int n_tiles,
                                  __global const uchar *b, long panel_bytes, int last, int n,
                                  __local float *factors, __local float *sums, int ld) {
  __global const uchar *block[PANELS];
#pragma unroll
  for (int p = 0; p < PANELS; p++) block[p] = b + min(p, last) * panel_bytes;
  read_factors(block, n, factors);
  for (int t = 0; t < n_tiles; t++)
    multiply_dots(a + t * tile_words, block, n, factors, sums + t * M * ld, ld);
}

__kernel void gemm_dots(DOTS_PARAMS, CODES_PARAMS, const index_t rows, const index_t each,
                        const index_t strip, __local float *factors, __local float *sums) {
  const index_t z = (index_t)get_global_id(2), panels = (n_size + PANEL - 1) / PANEL,
                first = (index_t)get_global_id(0) * each * PANELS,
                last = min(first + each * PANELS, panels);
  const index_t m0 = (index_t)get_global_id(1) * rows, tiles = (m_size + M - 1) / M;
  const dots_product product = DOTS_PRODUCT_AT(z);
  const int count = (int)min(rows, product.rows - m0), n_tiles = (count + M - 1) / M,
            ld = (int)strip * PANELS * PANEL;
  const long tile_words = (long)parts * TILE_WORDS;
  a += a_offset + ((long)z * tiles + m0 / M) * tile_words;
  b += b_offset + product.b;
  bias += bias_offset + strided_offset(z, batch_dims, bias_batch) + m0 * bias_m;
  out += out_offset + product.out + (long)m0 * n_size;
  if (count <= 0) return;
  for (index_t p = first; p < last; p += strip * PANELS) {
    const index_t n0 = p * PANEL, end = min(p + strip * PANELS, last);
    const int columns = (int)min((end - p) * PANEL, n_size - n0);
    for (int i = 0; i < n_tiles * M * ld; i++) sums[i] = 0;
    for (index_t part = 0; part < parts; part += BLOCK)
      for (index_t i = p; i < end; i += PANELS)
        multiply_block(a + (long)part * TILE_WORDS, tile_words, n_tiles,
                       BLOCK_OF(b + (long)i * panel_bytes, part), panel_bytes,
                       (int)(panels - 1 - i), (int)min((index_t)BLOCK, parts - part), factors,
                       sums + (i - p) * PANEL, ld);
    for (int m = 0; m < count; m++) {
      for (int j = 0; j < columns; j++) {
        float v = product.has_matrix ? alpha * sums[m * ld + j] : 0.0f;
#if HAS_BIAS
        v += beta * LOADF(BIAS_TYPE, bias, m * bias_m + (n0 + j) * bias_n);
#endif
        STORE(OUT_TYPE, out, m * n_size + n0 + j, v);
      }
      EPILOGUE(out + m * n_size + n0, (z * m_size + m0 + m) * n_size + n0, columns);
    }
  }
}
