/* out = x, contiguous; x may have any strides. Elements are moved as unsigned integers of SIZE
 * bytes.
 *
 *   copy_lines   for a long inner dimension: a line is one row of the range (i, row). On a CPU a
 *                work-item copies a block of `each` lines by `span` elements, on a GPU one element
 *   copy_points  for a short inner dimension: one division chain per element
 *   copy_tiles   for different inner dimensions of out and x: tiles of TILE x TILE, so that both
 *                sides use whole cache lines; one work-item per tile on a CPU, TILE_ROWS x TILE
 *                work-items through local memory on a GPU */
#include "common.h"
#ifndef SIZE
#define SIZE 4
#endif
#ifndef DENSE
#define DENSE 0 /* the inner stride is 1 */
#endif
#define TILE 16
#define TILE_ROWS 4

#if SIZE == 1
typedef uchar element;
#elif SIZE == 2
typedef ushort element;
#elif SIZE == 4
typedef uint element;
#else
typedef ulong element;
#endif

/* dims and strides describe all dimensions except the inner one. */
__kernel void copy_lines(__global const element *x, const long x_offset, const index8 dims,
                         const index8 strides, const index_t stride, __global element *out,
                         const long out_offset, const index_t n, const index_t rows,
                         const index_t span, const index_t each) {
#if ON_CPU
  const index_t begin = (index_t)get_global_id(0) * span, end = min(begin + span, n),
                first = (index_t)get_global_id(1) * each, last = min(first + each, rows);
  for (index_t row = first; row < last; row++) {
    __global const element *from = x + x_offset + strided_offset(row, dims, strides);
    __global element *to = out + out_offset + row * n;
    for (index_t i = begin; i < end; i++) to[i] = from[DENSE ? i : i * stride];
  }
#else
  const index_t i = (index_t)get_global_id(0), row = (index_t)get_global_id(1);
  if (i >= n) return;
  const index_t base = strided_offset(row, dims, strides);
  out[out_offset + row * n + i] = x[x_offset + base + (DENSE ? i : i * stride)];
#endif
}

__kernel void copy_points(__global const element *x, const long x_offset, const index8 dims,
                          const index8 strides, __global element *out, const long out_offset,
                          const index_t n) {
  const index_t i = (index_t)get_global_id(0);
  if (i < n) out[out_offset + i] = x[x_offset + strided_offset(i, dims, strides)];
}

/* Element (r, c) of a plane is at x[r + c * x_stride] and goes to out[r * out_stride + c], for r <
 * rows and c < columns. dims, x_strides and out_strides describe the other dimensions. */
__kernel void copy_tiles(__global const element *x, const long x_offset, const index_t x_stride,
                         __global element *out, const long out_offset, const index_t out_stride,
                         const index_t rows, const index_t columns, const index8 dims,
                         const index8 x_strides, const index8 out_strides) {
  const index_t plane = (index_t)get_global_id(2);
  __global const element *from = x + x_offset + strided_offset(plane, dims, x_strides);
  __global element *to = out + out_offset + strided_offset(plane, dims, out_strides);
#if ON_CPU
  const index_t r0 = (index_t)get_global_id(1) * TILE, c0 = (index_t)get_global_id(0) * TILE;
  const index_t r1 = min(r0 + TILE, rows), c1 = min(c0 + TILE, columns);
  for (index_t r = r0; r < r1; r++)
    for (index_t c = c0; c < c1; c++) to[r * out_stride + c] = from[r + c * x_stride];
#else
  __local element tile[TILE][TILE + 1];
  const index_t r0 = (index_t)get_group_id(1) * TILE, c0 = (index_t)get_group_id(0) * TILE;
  const int a = (int)get_local_id(0), b = (int)get_local_id(1);
  for (int k = b; k < TILE; k += TILE_ROWS)
    if (r0 + a < rows && c0 + k < columns) tile[k][a] = from[r0 + a + (c0 + k) * x_stride];
  barrier(CLK_LOCAL_MEM_FENCE);
  for (int k = b; k < TILE; k += TILE_ROWS)
    if (r0 + k < rows && c0 + a < columns) to[(r0 + k) * out_stride + c0 + a] = tile[a][k];
#endif
}
