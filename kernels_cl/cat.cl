/* out[k] = x[k] over equal dims, any strides on both sides: copies an operand of cat, or a replaced
 * slice. A work-item copies CHUNK neighbours of the innermost dimension. DENSE: that dimension has
 * stride 1 on both sides. */
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
__kernel void cat_part(const __global STORAGE(TYPE) * x, const long x_offset,
                       __global STORAGE(TYPE) * out, const long out_offset, const index8 dims,
                       const index8 x_strides, const index8 out_strides, const index_t items,
                       const index_t n, const index_t x_step, const index_t out_step) {
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
  for (index_t i = from; i < end; i++) out[i * out_step] = x[i * x_step];
#endif
}
