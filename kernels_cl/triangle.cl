/* out[k, i, j] = x[k, i, j] where j - i <= diagonal (UPPER: >=), else 0. A work-item writes CHUNK
 * neighbours of j. Zero is all bits zero in every dtype. */
#include "common.h"
#ifndef TYPE
#define TYPE I32
#endif
#ifndef CHUNK
#define CHUNK 64
#endif
#ifndef UPPER
#define UPPER 0
#endif

/* dims, strides: all dimensions except the last (i first); rows, columns: sizes of i and j. */
__kernel void triangle(const __global STORAGE(TYPE) * x, const long x_offset,
                       __global STORAGE(TYPE) * out, const long out_offset, const index8 dims,
                       const index8 strides, const index_t items, const index_t columns,
                       const index_t step, const long diagonal) {
  const index_t item = (index_t)get_global_id(0);
  if (item >= items) return;
  const index_t per_row = (columns + CHUNK - 1) / CHUNK;
  const index_t row = item / per_row, from = item % per_row * CHUNK;
  const index_t end = from + CHUNK < columns ? from + CHUNK : columns;
  const long i = row % dims.s0;
  x += x_offset + strided_offset(row, dims, strides);
  out += out_offset + (long)row * columns;
  for (index_t j = from; j < end; j++) {
    const int keep = UPPER ? j - i >= diagonal : j - i <= diagonal;
    out[j] = keep ? x[j * step] : (STORAGE(TYPE))0;
  }
}
