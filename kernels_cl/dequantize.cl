/* out[p] = row index[p] of an encoded constant, or row p if HAS_INDEX is 0, as plain floats. A
 * work-item decodes 32 elements. An index out of range is reported and replaced by 0. */
#include "common.h"
#include "encoded.h"
#include "picked.h"
#ifndef OUT_TYPE
#define OUT_TYPE F32
#endif
#ifndef HAS_INDEX
#define HAS_INDEX 1
#endif

__kernel void dequantize(ENCODED_PARAMS, __global const STORAGE(INDEX_TYPE) * index,
                         const long index_offset, const index8 index_dims,
                         const index8 index_strides, __global STORAGE(OUT_TYPE) * out,
                         const long out_offset, const index_t rows, const index_t row_size,
                         const index_t parts, const index_t items, FAULT_PARAMS) {
  const index_t item = (index_t)get_global_id(0);
  if (item >= items) return;
  const index_t p = item / parts, part = item % parts;
#if HAS_INDEX
  const long row = picked_row(index + index_offset + strided_offset(p, index_dims, index_strides),
                              rows, fault, fault_node);
#else
  const long row = p;
#endif
  if (rows == 0) return;
  float x[PART];
  decode_part(codes + codes_offset + row * row_bytes, part, scales_at, groups, group, x);
  const int n = (int)min((index_t)PART, row_size - part * PART);
  out += out_offset + (long)p * row_size + part * PART;
  for (int i = 0; i < n; i++) STORE(OUT_TYPE, out, i, x[i]);
}
