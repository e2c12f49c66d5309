/* Sliding blocks: blocks[p, a, b, i, j] = planes[p, i * stride_y - padding_y + a * dilation_y,
 * likewise for b, j], 0 outside.
 *
 *   im2col   planes to blocks; MOVED is any dtype of the same size
 *   col2im   planes[p, y, x] = the sum of the elements that im2col would read from there, rounded
 *            after each, in the order of a, b
 *
 * A work-item computes CHUNK neighbours of a row. */
#include "common.h"
#ifndef TYPE
#define TYPE F32
#endif
#ifndef MOVED
#define MOVED I32
#endif
#ifndef CHUNK
#define CHUNK 1
#endif

/* Planes of (rows, columns) and n_y * n_x windows of them. */
#define WINDOWS_PARAMS                                                                           \
  const index_t items, const int rows, const int columns, const int n_y, const int n_x,          \
      const int k_y, const int k_x, const int stride_y, const int stride_x, const int padding_y, \
      const int padding_x, const int dilation_y, const int dilation_x

/* rows, columns: size of a plane. n_y, n_x: positions of the window. k_y, k_x: its size. */
__kernel void im2col(const __global STORAGE(MOVED) * x, const long x_offset,
                     __global STORAGE(MOVED) * out, const long out_offset, WINDOWS_PARAMS) {
  const index_t item = (index_t)get_global_id(0);
  if (item >= items) return;
  const int per_row = (n_x + CHUNK - 1) / CHUNK;
  const int from = (int)(item % per_row) * CHUNK, end = min(from + CHUNK, n_x);
  const index_t row = item / per_row, block = row / n_y;
  const int b = (int)(block % k_x), a = (int)(block / k_x % k_y);
  const index_t plane = block / k_x / k_y;
  const long y = (long)(row % n_y) * stride_y - padding_y + (long)a * dilation_y;
  const int inside = y >= 0 && y < rows;
  x += x_offset + (plane * rows + (inside ? (index_t)y : 0)) * columns;
  out += out_offset + row * n_x;
  for (int j = from; j < end; j++) {
    const long k = (long)j * stride_x - padding_x + (long)b * dilation_x;
    out[j] = inside && k >= 0 && k < columns ? x[k] : 0;
  }
}

/* Returns the position of the window whose element k covers cell i, or -1 if none exists. */
static inline int find_position(int i, int padding, int k, int dilation, int stride, int n) {
  const long from = (long)i + padding - (long)k * dilation;
  const long position = from / stride;
  return from >= 0 && from == position * stride && position < n ? (int)position : -1;
}

__kernel void col2im(const __global STORAGE(TYPE) * x, const long x_offset,
                     __global STORAGE(TYPE) * out, const long out_offset, WINDOWS_PARAMS) {
  const index_t item = (index_t)get_global_id(0);
  if (item >= items) return;
  const int per_row = (columns + CHUNK - 1) / CHUNK;
  const int from = (int)(item % per_row) * CHUNK, end = min(from + CHUNK, columns);
  const index_t row = item / per_row, plane = row / rows;
  const int y = (int)(row % rows);
  x += x_offset;
  for (int k = from; k < end; k++) {
    real sum = 0;
    for (int a = 0; a < k_y; a++) {
      const int i = find_position(y, padding_y, a, dilation_y, stride_y, n_y);
      if (i < 0) continue;
      for (int b = 0; b < k_x; b++) {
        const int j = find_position(k, padding_x, b, dilation_x, stride_x, n_x);
        const index_t at = (((plane * k_y + a) * k_x + b) * n_y + i) * n_x + j;
        if (j >= 0) sum = ROUND(TYPE, sum + LOAD(TYPE, x, at));
      }
    }
    STORE(TYPE, out, out_offset + row * columns + k, sum);
  }
}
