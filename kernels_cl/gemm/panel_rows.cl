/* out[p] = row index[p] of a table of floats that is also the b of products. It is read from the
 * panels of gemm_panels_pack.cl if they exist, else from x. A work-item copies 32 elements. An
 * index out of range is reported and replaced by 0. */
#include "common.h"
#include "picked.h"
#ifndef TYPE
#define TYPE I32 /* any type of its size */
#endif
#define PART 32

/* columns: of a panel. */
__kernel void panel_rows(__global const STORAGE(TYPE) * x, const long x_offset,
                         __global const STORAGE(TYPE) * panels, const long panels_offset,
                         const int columns, __global const STORAGE(INDEX_TYPE) * index,
                         const long index_offset, const index8 index_dims,
                         const index8 index_strides, __global STORAGE(TYPE) * out,
                         const long out_offset, const index_t rows, const index_t row_size,
                         const index_t parts, const index_t items, FAULT_PARAMS) {
  const index_t item = (index_t)get_global_id(0);
  if (item >= items) return;
  const index_t p = item / parts, k0 = item % parts * PART;
  const int n = (int)min((index_t)PART, row_size - k0);
  const long row = picked_row(index + index_offset + strided_offset(p, index_dims, index_strides),
                              rows, fault, fault_node);
  out += out_offset + (long)p * row_size + k0;
  if (IS_ABSENT(panels)) {
    x += x_offset + row * row_size + k0;
    for (int k = 0; k < n; k++) out[k] = x[k];
  } else {
    panels += panels_offset + row / columns * columns * row_size + row % columns;
    for (int k = 0; k < n; k++) out[k] = panels[(k0 + k) * (long)columns];
  }
}
