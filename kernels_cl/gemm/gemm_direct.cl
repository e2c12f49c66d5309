/* out[z][m][n] = alpha * sum_k a[z][m][k] * b[k][n] + beta * bias[z][m][n] on GPUs whose local
 * memory is not fast: floats up to f32, sums in f32, one b for all batches.
 *
 * b is packed in texels of 16 bytes, VECTOR(B_TYPE) neighbours of n: (k, texels of a row). k is
 * rounded up to DEPTH with zeros. b is read as a buffer, or as an image. A work-item computes ROWS
 * rows of a texel's columns; the work-items of a group are neighbours along m and read the same
 * texels.
 *
 * HALVES_BY (halves.h): both operands are packed by gemm_halves_pack.cl. Rows of a have a texel for
 * their exponent before their elements; the first texels of b have the columns' exponents. */
#include "fetch.h"
#include "halves.h"
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
#define TEXELS_TYPE __read_only image1d_buffer_t
#define TEXEL_OF(texels, i) read_imageui(texels, (int)(i))
#else
#define TEXELS_TYPE __global const uint4 *
#define TEXEL_OF(texels, i) (texels)[i]
#endif

#if HALVES_BY
#define ADD_PRODUCTS(j)                                                     \
  y = HALVES_OF(TEXEL_OF(texels, (k0 + k + (j) + 1) * row_texels + texel)); \
  _Pragma("unroll") for (int i = 0; i < ROWS; i++) partial[i] =             \
      ADD_PRODUCT(y, PASTE(x[i].s, j), partial[i]);

/* sum (ROWS, COLUMNS) = the product of rows [0, rows) at a and texel `texel` of each k. */
static inline void sum_block(__global const half *a, index_t a_m, index_t a_k, index_t rows,
                             index_t depth, TEXELS_TYPE texels, index_t texel, index_t row_texels,
                             float *sum) {
  float8 total[ROWS];
#pragma unroll
  for (int i = 0; i < ROWS; i++) total[i] = (float8)0;
  for (index_t k0 = 0; k0 < depth; k0 += HALVES_CHAIN) {
    halves partial[ROWS], x[ROWS], y;
#pragma unroll
    for (int i = 0; i < ROWS; i++) partial[i] = (halves)0;
#pragma unroll
    for (int k = 0; k < HALVES_CHAIN; k += 8) {
#pragma unroll
      for (int i = 0; i < ROWS; i++)
        x[i] = HALVES_OF(
            ((__global const uint4 *)(a + min((index_t)i, rows - 1) * a_m))[(k0 + k) / 8 + 1]);
      ADD_PRODUCTS(0)
      ADD_PRODUCTS(1)
      ADD_PRODUCTS(2)
      ADD_PRODUCTS(3)
      ADD_PRODUCTS(4)
      ADD_PRODUCTS(5)
      ADD_PRODUCTS(6)
      ADD_PRODUCTS(7)
    }
#pragma unroll
    for (int i = 0; i < ROWS; i++) total[i] += FLOATS_OF(partial[i]);
  }
  short of_columns[COLUMNS];
  vstore8(as_short8(TEXEL_OF(texels, texel)), 0, of_columns);
#pragma unroll
  for (int i = 0; i < ROWS; i++) vstore8(total[i], i, sum);
#pragma unroll
  for (int i = 0; i < ROWS * COLUMNS; i++) {
    const int of_row = *(__global const short *)(a + min((index_t)(i / COLUMNS), rows - 1) * a_m);
    sum[i] = ldexp(sum[i], of_row + of_columns[i % COLUMNS]);
  }
}
#else
/* Returns DEPTH elements of a row from k on, of which n exist; the rest are 0. */
static inline float4 load_row(__global const STORAGE(A_TYPE) * a, index_t a_k, index_t n) {
  if (a_k == 1 && n >= DEPTH) return LOAD4F(A_TYPE, a);
  float v[DEPTH];
  for (int i = 0; i < DEPTH; i++) v[i] = i < n ? LOADF(A_TYPE, a, i * a_k) : 0;
  return vload4(0, v);
}

/* sum (ROWS, COLUMNS) = the product of rows [0, rows) at a and texel `texel` of each k. */
static inline void sum_block(__global const STORAGE(A_TYPE) * a, index_t a_m, index_t a_k,
                             index_t rows, index_t depth, TEXELS_TYPE texels, index_t texel,
                             index_t row_texels, float *sum) {
  float partial[ROWS * COLUMNS];
#pragma unroll
  for (int i = 0; i < ROWS * COLUMNS; i++) sum[i] = partial[i] = 0;
  for (index_t k0 = 0; k0 < depth; k0 += DEPTH) {
    float x[ROWS][DEPTH], y[8];
#pragma unroll
    for (int i = 0; i < ROWS; i++)
      vstore4(load_row(a + min((index_t)i, rows - 1) * a_m + k0 * a_k, a_k, depth - k0), 0, x[i]);
#pragma unroll
    for (int k = 0; k < DEPTH; k++) {
      expand_texel(KIND(B_TYPE), TEXEL_OF(texels, (k0 + k) * row_texels + texel), y);
#pragma unroll
      for (int i = 0; i < ROWS * COLUMNS; i++)
        partial[i] = FMA(x[i / COLUMNS][k], y[i % COLUMNS], partial[i]);
    }
    if ((k0 + DEPTH) % CHAIN != 0 && k0 + DEPTH < depth) continue;
#pragma unroll
    for (int i = 0; i < ROWS * COLUMNS; i++) {
      sum[i] += partial[i];
      partial[i] = 0;
    }
  }
}
#endif

/* The body of a work-item in a kernel with GEMM_PARAMS and DENSE_PARAMS. texels: of TEXELS_TYPE. */
#define MULTIPLY_BLOCK(texels)                                                                 \
  const index_t z = (index_t)get_global_id(2), m0 = (index_t)get_global_id(1) * ROWS,          \
                texel = (index_t)get_global_id(0), n0 = texel * COLUMNS;                       \
  const product at = PRODUCT_AT(z);                                                            \
  if (m0 >= at.rows || n0 >= n_size) return;                                                   \
  const index_t rows = min((index_t)ROWS, at.rows - m0);                                       \
  const int columns = (int)min((index_t)COLUMNS, n_size - n0);                                 \
  float sum[ROWS * COLUMNS];                                                                   \
  sum_block(a + a_offset + at.a + m0 * a_m, a_m, a_k, rows, at.depth, texels, texel,           \
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
  __global const uint4 *texels = (__global const uint4 *)b + b_offset;
  MULTIPLY_BLOCK(texels);
}

__kernel void gemm_direct_image(GEMM_PARAMS, DENSE_PARAMS, __read_only image1d_buffer_t b_image) {
  MULTIPLY_BLOCK(b_image);
}
