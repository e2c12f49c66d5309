/* out[k] = x[k], where x and out have equal dims and any strides: copies an operand of cat, or the
 * new contents of a slice. A work-item copies CHUNK neighbours of the innermost dimension. DENSE:
 * that dimension has stride 1 on both sides. */
#include "common.h"
#ifndef TYPE
#define TYPE I32
#endif
#ifndef CHUNK
#define CHUNK 64
#endif
#ifndef DENSE
#define DENSE 1
#endif

/* dims and strides describe the outer dimensions; n is the size of the innermost one. */
__kernel void cat_slice(const __global STORAGE(TYPE) * x, const long x_offset,
                        __global STORAGE(TYPE) * out, const long out_offset, const index8 dims,
                        const index8 x_strides, const index8 out_strides, const index_t items,
                        const index_t n, const index_t x_stride, const index_t out_stride) {
  const index_t item = (index_t)get_global_id(0);
  if (item >= items) return;
  const index_t per_row = (n + CHUNK - 1) / CHUNK;
  const index_t row = item / per_row, from = item % per_row * CHUNK;
  const index_t end = from + CHUNK < n ? from + CHUNK : n;
  x += x_offset + strided_offset(row, dims, x_strides);
  out += out_offset + strided_offset(row, dims, out_strides);
#if DENSE
  for (index_t i = from; i < end; i++) out[i] = x[i];
#else
  for (index_t i = from; i < end; i++) out[i * out_stride] = x[i * x_stride];
#endif
}
