/* out[k] = x[m(k)]. In each dimension, m(k) is k - before mapped into [0, size): MODE 0 writes
 * `value` outside, 1 reflects without repeating the edge, 2 clamps, 3 wraps around. A work-item
 * writes CHUNK neighbours of a row. dims, before and sizes are innermost first. */
#include "common.h"
#ifndef TYPE
#define TYPE I32
#endif
#ifndef CHUNK
#define CHUNK 64
#endif
#ifndef MODE
#define MODE 0
#endif

/* Returns the source position of i, or -1 if it is outside. */
static inline index_t source_index(index_t i, index_t size) {
#if MODE == 0
  return i >= 0 && i < size ? i : -1;
#elif MODE == 1
  i = i < 0 ? -i : i;
  i = i >= size ? 2 * (size - 1) - i : i;
  return i < 0 ? 0 : i;
#elif MODE == 2
  return i < 0 ? 0 : i >= size ? size - 1 : i;
#else
  i %= size;
  return i < 0 ? i + size : i;
#endif
}

/* Splits the position in an outer dimension off `row`; adds it to source or clears `inside`. */
#define STEP(d)                                                                \
  if (n_dims > 0x##d) {                                                        \
    const index_t i = source_index(row % dims.s##d - before.s##d, sizes.s##d); \
    row /= dims.s##d;                                                          \
    inside = inside && i >= 0;                                                 \
    source += i * strides.s##d;                                                \
  }

__kernel void pad(const __global STORAGE(TYPE) * x, const long x_offset,
                  __global STORAGE(TYPE) * out, const long out_offset, const index8 dims,
                  const index8 before, const index8 sizes, const index8 strides, const int n_dims,
                  const index_t items, const long value) {
  const index_t item = (index_t)get_global_id(0);
  if (item >= items) return;
  const index_t per_row = (dims.s0 + CHUNK - 1) / CHUNK;
  const index_t from = item % per_row * CHUNK,
                end = from + CHUNK < dims.s0 ? from + CHUNK : dims.s0;
  index_t row = item / per_row, source = 0;
  int inside = 1;
  out += out_offset + row * dims.s0;
  STEP(1) STEP(2) STEP(3) STEP(4) STEP(5) STEP(6) STEP(7) x += x_offset + (inside ? source : 0);
  for (index_t k = from; k < end; k++) {
    const index_t i = source_index(k - before.s0, sizes.s0);
    out[k] = inside && i >= 0 ? x[i * strides.s0] : (STORAGE(TYPE))value;
  }
}
