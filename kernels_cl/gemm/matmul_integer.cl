/* out[m][n] = bias[n] + sum over k of a[m][k] b[n][k], of bytes. A work-item computes COLUMNS
 * columns of a row. */
#include "common.h"
#ifndef SIGNED
#define SIGNED 0
#endif
#ifndef HAS_BIAS
#define HAS_BIAS 1
#endif
#ifndef OUT_TYPE
#define OUT_TYPE I32
#endif
#define COLUMNS 4
#if SIGNED
#define BYTE char
#else
#define BYTE uchar
#endif

/* items = rows * blocks of COLUMNS columns, blocks innermost. */
__kernel void matmul_integer(const __global BYTE *a, const long a_offset, const __global char *b,
                             const long b_offset, const __global int *bias, const long bias_offset,
                             __global STORAGE(OUT_TYPE) * out, const long out_offset,
                             const index_t items, const int blocks, const int n_size,
                             const int k_size) {
  const index_t item = (index_t)get_global_id(0);
  if (item >= items) return;
  const index_t row = item / blocks;
  const int first = (int)(item % blocks) * COLUMNS, n = min(COLUMNS, n_size - first);
  a += a_offset + row * k_size;
  b += b_offset + (index_t)first * k_size;
  int sum[COLUMNS];
#pragma unroll
  for (int o = 0; o < COLUMNS; o++)
    sum[o] = HAS_BIAS ? bias[bias_offset + first + min(o, n - 1)] : 0;
  for (int k = 0; k < k_size; k++) {
    const int x = a[k];
#pragma unroll
    for (int o = 0; o < COLUMNS; o++) sum[o] += x * b[min(o, n - 1) * (index_t)k_size + k];
  }
  const index_t at = row * n_size + first;
  STORE_RESULT(out + out_offset + at, sum, at, n);
}
