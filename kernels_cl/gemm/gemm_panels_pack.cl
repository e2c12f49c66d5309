/* Packs the constant b of products as [panel of COLUMNS columns][k][COLUMNS], in its own type, with
 * zeros for columns beyond the last. A work-item writes `depth` k of a panel. */
#include "common.h"
#ifndef B_TYPE
#define B_TYPE I32 /* any type of its size */
#endif
#ifndef WIDTH
#define WIDTH 16 /* floats per register */
#endif
#ifndef B_ORDER
#define B_ORDER 1 /* 1: k is contiguous */
#endif
#define COLUMNS (2 * WIDTH)

__kernel void gemm_panels_pack(__global const STORAGE(B_TYPE) * b, const long b_offset,
                               const index_t b_k, const index_t b_n,
                               __global STORAGE(B_TYPE) * packed, const long packed_offset,
                               const index_t n_size, const index_t k_size, const index_t depth) {
  const index_t n0 = (index_t)get_global_id(0) * COLUMNS, k0 = (index_t)get_global_id(1) * depth;
  const int deep = (int)min(depth, k_size - k0), columns = (int)min((index_t)COLUMNS, n_size - n0);
  b += b_offset + n0 * b_n + k0 * b_k;
  packed += packed_offset + (long)n0 * k_size + (long)k0 * COLUMNS;
  for (int j = 0; j < COLUMNS; j++) {
    if (j >= columns) {
      for (int k = 0; k < deep; k++) packed[k * COLUMNS + j] = 0;
      continue;
    }
    __global const STORAGE(B_TYPE) *column = b + j * b_n;
#if B_ORDER == 1
    for (int k = 0; k < deep; k++) packed[k * COLUMNS + j] = column[k];
#else
    for (int k = 0; k < deep; k++) packed[k * COLUMNS + j] = column[k * b_k];
#endif
  }
}
