/* Rotates each pair (a, b) of a row of head_dim to (a cos - b sin, a sin + b cos). The n_heads rows
 * of position i use row i % n_angles of cos and sin (n_angles, head_dim / 2). INTERLEAVED: pairs
 * are (2i, 2i + 1), else (i, i + head_dim / 2). A work-item rotates CHUNK pairs. */
#include "common.h"
#ifndef X_TYPE
#define X_TYPE F32
#endif
#ifndef TABLE_TYPE
#define TABLE_TYPE F32
#endif
#ifndef INTERLEAVED
#define INTERLEAVED 0
#endif
#ifndef CHUNK
#define CHUNK 64
#endif

/* dims and strides describe x without its last dimension, heads first. */
__kernel void rope(const __global STORAGE(X_TYPE) * x, const long x_offset,
                   const __global STORAGE(TABLE_TYPE) * cosines, const long cosines_offset,
                   const __global STORAGE(TABLE_TYPE) * sines, const long sines_offset,
                   __global STORAGE(X_TYPE) * out, const long out_offset, const index8 dims,
                   const index8 strides, const index_t items, const index_t n_heads,
                   const index_t n_angles, const index_t n_pairs) {
  const index_t item = (index_t)get_global_id(0);
  if (item >= items) return;
  const index_t per_row = (n_pairs + CHUNK - 1) / CHUNK, row = item / per_row;
  const index_t from = item % per_row * CHUNK,
                end = from + CHUNK < n_pairs ? from + CHUNK : n_pairs;
  const index_t angles = row / n_heads % n_angles;
  x += x_offset + strided_offset(row, dims, strides);
  out += out_offset + row * 2 * n_pairs;
  cosines += cosines_offset + angles * n_pairs;
  sines += sines_offset + angles * n_pairs;
  for (index_t i = from; i < end; i++) {
    const index_t first = INTERLEAVED ? 2 * i : i, second = INTERLEAVED ? first + 1 : i + n_pairs;
    const real a = LOAD(X_TYPE, x, first), b = LOAD(X_TYPE, x, second);
    const real c = LOAD(TABLE_TYPE, cosines, i), s = LOAD(TABLE_TYPE, sines, i);
    const real ra = a * c - b * s, rb = a * s + b * c;
    STORE(X_TYPE, out, first, ra);
    STORE(X_TYPE, out, second, rb);
  }
}
