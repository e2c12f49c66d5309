/* out[z][m][n] = alpha * sum_k a[z][m][k] * b[k][n] + beta * bias[z][m][n] on GPUs whose local
 * memory is not fast: floats up to f32, sums in f32, one b for all batches.
 *
 * b is packed in words of 16 bytes, VECTOR(B_TYPE) neighbours of n: (k, words of a row). k is
 * rounded up to DEPTH with zeros. b is read as a buffer, or as an image. A work-item computes ROWS
 * rows of a word's columns; work-items of a group that follow each other along m read the same
 * words. */
#include "fetch.h"
#include "matmul.h"
#ifndef ROWS
#define ROWS 4
#endif
#ifndef IMAGE
#define IMAGE 0
#endif
#define DEPTH 4
#define CHAIN 64 /* additions in a row before their sum is added to the total */
#define COLUMNS VECTOR(B_TYPE)

#if IMAGE
#define WORDS_TYPE __read_only image1d_buffer_t
#define WORD_OF(words, i) read_imageui(words, (int)(i))
#else
#define WORDS_TYPE __global const uint4 *
#define WORD_OF(words, i) (words)[i]
#endif

/* Returns DEPTH elements of a row from k on, of which n exist; the rest are 0. */
static inline float4 load_row(__global const STORAGE(A_TYPE) * a, index_t a_k, index_t n) {
  if (a_k == 1 && n >= DEPTH) return LOAD4F(A_TYPE, a);
  float v[DEPTH];
  for (int i = 0; i < DEPTH; i++) v[i] = i < n ? LOADF(A_TYPE, a, i * a_k) : 0;
  return vload4(0, v);
}

/* sum (ROWS, COLUMNS) = rows [0, rows) from a on by word `word` of each k. */
static inline void sum_block(__global const STORAGE(A_TYPE) * a, index_t a_m, index_t a_k,
                             index_t rows, index_t depth, WORDS_TYPE words, index_t word,
                             index_t row_words, float *sum) {
  float part[ROWS * COLUMNS];
#pragma unroll
  for (int i = 0; i < ROWS * COLUMNS; i++) sum[i] = part[i] = 0;
  for (index_t k0 = 0; k0 < depth; k0 += DEPTH) {
    float x[ROWS][DEPTH], y[8];
#pragma unroll
    for (int i = 0; i < ROWS; i++)
      vstore4(load_row(a + min((index_t)i, rows - 1) * a_m + k0 * a_k, a_k, depth - k0), 0, x[i]);
#pragma unroll
    for (int k = 0; k < DEPTH; k++) {
      expand_word(KIND(B_TYPE), WORD_OF(words, (k0 + k) * row_words + word), y);
#pragma unroll
      for (int i = 0; i < ROWS * COLUMNS; i++)
        part[i] = fma(x[i / COLUMNS][k], y[i % COLUMNS], part[i]);
    }
    if ((k0 + DEPTH) % CHAIN != 0 && k0 + DEPTH < depth) continue;
#pragma unroll
    for (int i = 0; i < ROWS * COLUMNS; i++) {
      sum[i] += part[i];
      part[i] = 0;
    }
  }
}

/* The body of a work-item in a kernel with GEMM_PARAMS and DENSE_PARAMS. words: of WORDS_TYPE. */
#define MULTIPLY_BLOCK(words)                                                                  \
  const index_t z = (index_t)get_global_id(2), m0 = (index_t)get_global_id(1) * ROWS,          \
                word = (index_t)get_global_id(0), n0 = word * COLUMNS;                         \
  const product at = PRODUCT_AT(z);                                                            \
  if (m0 >= at.rows || n0 >= n_size) return;                                                   \
  const index_t rows = min((index_t)ROWS, at.rows - m0);                                       \
  const int columns = (int)min((index_t)COLUMNS, n_size - n0);                                 \
  float sum[ROWS * COLUMNS];                                                                   \
  sum_block(a + a_offset + at.a + m0 * a_m, a_m, a_k, rows, at.depth, words, word,             \
            (n_size + COLUMNS - 1) / COLUMNS, sum);                                            \
  out += out_offset + at.out + m0 * n_size + n0;                                               \
  bias += bias_offset + strided_offset(z, batch_dims, bias_batch) + m0 * bias_m + n0 * bias_n; \
  _Pragma("unroll") for (int i = 0; i < ROWS * COLUMNS; i++) {                                 \
    const int m = i / COLUMNS, n = i % COLUMNS;                                                \
    if (m >= rows || n >= columns) continue;                                                   \
    STORE(OUT_TYPE, out, m *n_size + n,                                                        \
          finish(sum[i], bias, m * bias_m + n * bias_n, alpha, beta));                         \
  }                                                                                            \
  for (int m = 0; m < rows; m++)                                                               \
    EPILOGUE(out + m * n_size, (index_t)at.out + (m0 + m) * n_size + n0, columns);

__kernel void gemm_direct(GEMM_PARAMS, DENSE_PARAMS) {
  __global const uint4 *words = (__global const uint4 *)b + b_offset;
  MULTIPLY_BLOCK(words);
}

__kernel void gemm_direct_image(GEMM_PARAMS, DENSE_PARAMS, __read_only image1d_buffer_t b_image) {
  MULTIPLY_BLOCK(b_image);
}
