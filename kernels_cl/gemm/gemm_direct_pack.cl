/* Packs b in texels of 16 bytes for gemm_direct.cl; a work-item packs one texel. B_ORDER: 0, n is
 * contiguous in b; 1: k is, or neither. */
#include "common.h"
#include "fetch.h"
#ifndef B_TYPE
#define B_TYPE F32
#endif
#ifndef B_ORDER
#define B_ORDER 0
#endif
#define COLUMNS VECTOR(B_TYPE)

/* packed: (k, texels of a row); k >= k_size are 0 */
__kernel void gemm_direct_pack(__global const STORAGE(B_TYPE) * b, const long b_offset,
                               const index_t b_k, const index_t b_n, __global uint4 *packed,
                               const long packed_offset, const index_t n_size, const index_t k_size,
                               const index_t texels) {
  const index_t at = (index_t)get_global_id(0), n = at % texels * COLUMNS, k = at / texels;
  if (at >= texels * ((k_size + 3) / 4 * 4)) return;
  const operand from = OPERAND(B_TYPE, b + b_offset, b_n, b_k, n_size, k_size, 0);
#if B_ORDER == 0
  packed[packed_offset + at] = fetch_at(&from, n, k);
#else
  ushort halves[8];
  for (int i = 0; i < 8; i++) {
    const index_t column = n + i / from.halves;
    halves[i] = column < n_size && k < k_size
                    ? from.p[column * from.row_stride + k * from.k_stride + i % from.halves]
                    : (ushort)0;
  }
  packed[packed_offset + at] = as_uint4(vload8(0, halves));
#endif
}
