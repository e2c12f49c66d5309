/* out[f, index[i], k] = source[f, i, k]: f over the dimensions in front of the axis, k behind it. A work-item walks all i
 * for CHUNK neighbours of k, so that the last duplicate wins. An index out of range is reported and skipped.
 * DENSE: k is one dimension of stride 1 in source. out is row-major. */
#include "common.h"
#ifndef TYPE
#define TYPE I32
#endif
#ifndef INDEX_TYPE
#define INDEX_TYPE I64
#endif
#ifndef CHUNK
#define CHUNK 64
#endif
#ifndef DENSE
#define DENSE 1
#endif

__kernel void update_by_index(const __global STORAGE(TYPE) *source, const long source_offset,
                              const __global STORAGE(INDEX_TYPE) *index, const long index_offset,
                              __global STORAGE(TYPE) *out, const long out_offset, const index8 front_dims,
                              const index8 front_strides, const index8 back_dims, const index8 back_strides,
                              const index_t items, const index_t n_index, const index_t n_back, const index_t size,
                              const index_t step, const index_t index_step, FAULT_PARAMS) {
  const index_t item = (index_t)get_global_id(0);
  if (item >= items) return;
  const index_t per_row = (n_back + CHUNK - 1) / CHUNK, f = item / per_row;
  const index_t from = item % per_row * CHUNK, end = from + CHUNK < n_back ? from + CHUNK : n_back;
  source += source_offset + strided_offset(f, front_dims, front_strides);
  out += out_offset + f * size * n_back;
  for (index_t i = 0; i < n_index; i++) {
    const long to = index[index_offset + i * index_step];
    if (to < 0 || to >= size) {
      set_fault(fault, fault_node, FAULT_INDEX, to, 0, size - 1);
      continue;
    }
#if DENSE
    for (index_t k = from; k < end; k++) out[(index_t)to * n_back + k] = source[i * step + k];
#else
    for (index_t k = from; k < end; k++)
      out[(index_t)to * n_back + k] = source[i * step + strided_offset(k, back_dims, back_strides)];
#endif
  }
}
