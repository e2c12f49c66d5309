/* Packs the constant b of products: as [panel of COLUMNS columns][k][COLUMNS], columns beyond the
 * last as zeros, in the type it has, or as words of pairs.h, whose k lie `apart`. A work-item
 * writes `depth` k of a panel. */
#include "common.h"
#include "pairs.h"
#ifndef B_TYPE
#define B_TYPE I32 /* one of its size */
#endif
#ifndef WIDTH
#define WIDTH 16 /* floats of a register */
#endif
#ifndef B_ORDER
#define B_ORDER 1 /* 1: k is contiguous */
#endif
#define COLUMNS (2 * WIDTH)
#if PAIRS
#define PACKED_TYPE F32
#else
#define PACKED_TYPE B_TYPE
#endif

#if PAIRS
/* Words [first, first + n) of a column, whose elements are `step` apart. */
static inline void pack_column(__global const STORAGE(B_TYPE) * column, index_t step, int k_size,
                               int apart, int first, int n, __global float *to) {
  int i = first;
#if B_ORDER == 1
  for (; apart == 1 && 2 * i + 16 <= k_size && i + 8 <= first + n; i += 8) {
    float some[8];
    vstore8(WORDS8(B_TYPE, column + 2 * i), 0, some);
    for (int k = 0; k < 8; k++) to[(i - first + k) * COLUMNS] = some[k];
  }
#endif
  for (; i < first + n; i++) {
    const int even = i / apart * 2 * apart + i % apart, odd = even + apart;
    to[(i - first) * COLUMNS] =
        as_float(float_to_bf16(LOADF(B_TYPE, column, even * step)) |
                 (odd < k_size ? (uint)float_to_bf16(LOADF(B_TYPE, column, odd * step)) << 16 : 0));
  }
}
#endif

__kernel void gemm_panels_pack(__global const STORAGE(B_TYPE) * b, const long b_offset,
                               const index_t b_k, const index_t b_n,
                               __global STORAGE(PACKED_TYPE) * packed, const long packed_offset,
                               const index_t n_size, const index_t k_size, const index_t apart,
                               const index_t depth) {
  const index_t n0 = (index_t)get_global_id(0) * COLUMNS, k0 = (index_t)get_global_id(1) * depth;
  const index_t words = WORDS_OF(k_size / apart) * apart;
  const int deep = (int)min(depth, words - k0), columns = (int)min((index_t)COLUMNS, n_size - n0);
  b += b_offset + n0 * b_n + (PAIRS ? 0 : k0 * b_k);
  packed += packed_offset + (long)n0 * words + (long)k0 * COLUMNS;
  for (int j = 0; j < COLUMNS; j++) {
    if (j >= columns) {
      for (int k = 0; k < deep; k++) packed[k * COLUMNS + j] = 0;
      continue;
    }
    __global const STORAGE(B_TYPE) *column = b + j * b_n;
#if PAIRS
    pack_column(column, b_k, (int)k_size, (int)apart, (int)k0, deep, packed + j);
#elif B_ORDER == 1
    for (int k = 0; k < deep; k++) packed[k * COLUMNS + j] = column[k];
#else
    for (int k = 0; k < deep; k++) packed[k * COLUMNS + j] = column[k * b_k];
#endif
  }
}
