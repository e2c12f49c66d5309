/* Reads elements by index tensors (I32 or I64). Index 0 replaces an index out of range, which
 * is reported.
 *   index_pick    out[f, b, k] = x[f, i0[b], i1[b], ..., k]: f over the dimensions before the
 *                 indexed ones, b over the broadcast index shape, k over the dimensions after them.
 *                 WRAP: negative indices count from the end. N_INDICES index tensors; bit j of
 *                 `kinds` is set if index j is I64. A work-item copies CHUNK neighbours of k;
 *                 DENSE: k is one dimension of stride 1
 *   index_ravel   out[b] = i0[b] * steps.s0 + i1[b] * steps.s1 + ...: one index into the joined
 *                 dimensions
 *   index_gather  out[k] = x[k with its axis replaced by index[k]] */
#include "common.h"
#ifndef TYPE
#define TYPE I32
#endif
#ifndef INDEX_TYPE
#define INDEX_TYPE I64
#endif
#ifndef CHUNK
#define CHUNK 1
#endif
#ifndef DENSE
#define DENSE 0
#endif
#ifndef N_INDICES
#define N_INDICES 1
#endif
#ifndef WRAP
#define WRAP 0
#endif
#ifndef CHECK
#define CHECK 1 /* 0 only in bench/bench.py, which measures the cost of checking */
#endif

static inline index_t checked_index(long i, index_t size, volatile __global fault_record *fault,
                                    uint fault_node) {
  const long low = WRAP ? -(long)size : 0;
  if (CHECK && (i < low || i >= size)) {
    set_fault(fault, fault_node, FAULT_INDEX, i, low, size - 1);
    return 0;
  }
  return (index_t)(i < 0 ? i + size : i);
}

static inline long read_index(const __global uchar *p, long at, int is_long) {
  return is_long ? ((const __global long *)p)[at] : (long)((const __global int *)p)[at];
}

/* Adds the offset that index tensor j selects in x's dimension, number `d` of dims and strides. */
#define PICK(j, d)                                                                                 \
  if (N_INDICES > j)                                                                               \
  source +=                                                                                        \
      strides.d *                                                                                  \
      checked_index(read_index(i##j, i##j##_offset + strided_offset(b, pick_dims, i##j##_strides), \
                               kinds >> j & 1),                                                    \
                    dims.d, fault, fault_node)
#define PICK_ALL \
  PICK(0, s7);   \
  PICK(1, s6);   \
  PICK(2, s5);   \
  PICK(3, s4);   \
  PICK(4, s3);   \
  PICK(5, s2);   \
  PICK(6, s1);   \
  PICK(7, s0)
#define IS_EMPTY(j, d) (N_INDICES > j && dims.d == 0)

/* dims, strides: the dimensions of x, at most 8, in this order: those after the indexed ones, those
 * before them, and from the end backwards the indexed ones. Separate arguments would exceed the
 * 1,024 bytes that all devices accept. */
#define INDICES_PARAMS                                                              \
  const index8 pick_dims, const index8 dims, const index8 strides, const int kinds, \
      const __global uchar *i0, const long i0_offset, const index8 i0_strides,      \
      const __global uchar *i1, const long i1_offset, const index8 i1_strides,      \
      const __global uchar *i2, const long i2_offset, const index8 i2_strides,      \
      const __global uchar *i3, const long i3_offset, const index8 i3_strides,      \
      const __global uchar *i4, const long i4_offset, const index8 i4_strides,      \
      const __global uchar *i5, const long i5_offset, const index8 i5_strides,      \
      const __global uchar *i6, const long i6_offset, const index8 i6_strides,      \
      const __global uchar *i7, const long i7_offset, const index8 i7_strides

__kernel void index_pick(const __global STORAGE(TYPE) * x, const long x_offset,
                         __global STORAGE(TYPE) * out, const long out_offset, INDICES_PARAMS,
                         const index_t items, const index_t n_picks, const index_t n_back,
                         FAULT_PARAMS) {
  const index_t item = (index_t)get_global_id(0);
  if (item >= items) return;
  const index_t per_row = (n_back + CHUNK - 1) / CHUNK, row = item / per_row;
  const index_t from = item % per_row * CHUNK, end = from + CHUNK < n_back ? from + CHUNK : n_back;
  const index_t f = row / n_picks, b = row % n_picks;
  index_t source = strided_offset(f * n_back, dims, strides);
  PICK_ALL;
  if (IS_EMPTY(0, s7) || IS_EMPTY(1, s6) || IS_EMPTY(2, s5) || IS_EMPTY(3, s4) || IS_EMPTY(4, s3) ||
      IS_EMPTY(5, s2) || IS_EMPTY(6, s1) || IS_EMPTY(7, s0))
    return; /* x is empty */
  x += x_offset + source;
  out += out_offset + row * n_back;
#if DENSE
  for (index_t k = from; k < end; k++) out[k] = x[k];
#else
  for (index_t k = from; k < end; k++) out[k] = x[strided_offset(k, dims, strides)];
#endif
}

__kernel void index_ravel(__global long *out, const long out_offset, INDICES_PARAMS,
                          const index_t items, FAULT_PARAMS) {
  const index_t b = (index_t)get_global_id(0);
  if (b >= items) return;
  long source = 0;
  PICK_ALL;
  out[out_offset + b] = source;
}

/* x_strides: 0 at the axis, whose size and stride are `size` and `step`. */
__kernel void index_gather(const __global STORAGE(TYPE) * x, const long x_offset,
                           const __global STORAGE(INDEX_TYPE) * index, const long index_offset,
                           __global STORAGE(TYPE) * out, const long out_offset, const index8 dims,
                           const index8 x_strides, const index8 index_strides, const index_t items,
                           const index_t size, const index_t step, FAULT_PARAMS) {
  const index_t k = (index_t)get_global_id(0);
  if (k >= items) return;
  const long i = index[index_offset + strided_offset(k, dims, index_strides)];
  const index_t at = checked_index(i, size, fault, fault_node);
  if (size > 0) out[out_offset + k] = x[x_offset + strided_offset(k, dims, x_strides) + at * step];
}
