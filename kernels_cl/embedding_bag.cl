/* out[b, k] = sum, mean or maximum over i in [offsets[b], offsets[b + 1]) of weight[indices[i], k]
 * * factors[i]. A work-item computes CHUNK neighbours of k in one bag. The last bag ends with the
 * last index. SKIP: indices equal to `skipped` do not count. An index or offset out of range is
 * reported and left out. An empty bag is 0. */
#include "common.h"
#ifndef TYPE
#define TYPE F32
#endif
#ifndef INDEX_TYPE
#define INDEX_TYPE I64
#endif
#ifndef OFFSET_TYPE
#define OFFSET_TYPE I64
#endif
#ifndef KIND
#define KIND 0
#endif
#ifndef CHUNK
#define CHUNK 16
#endif
#ifndef SKIP
#define SKIP 0
#endif
#ifndef FACTORS
#define FACTORS 0
#endif

#define SUM 0
#define MEAN 1
#define MAX 2

/* Returns `offset` if it is in [0, high]; else reports a fault and returns -1. */
static inline long checked_offset(long offset, long high, volatile __global fault_record *fault,
                                  uint fault_node) {
  if (offset >= 0 && offset <= high) return offset;
  set_fault(fault, fault_node, FAULT_INDEX, offset, 0, high);
  return -1;
}

__kernel void embedding_bag(const __global STORAGE(TYPE) * weight, const long weight_offset,
                            const __global STORAGE(INDEX_TYPE) * indices, const long indices_offset,
                            const __global STORAGE(OFFSET_TYPE) * offsets,
                            const long offsets_offset, const __global STORAGE(TYPE) * factors,
                            const long factors_offset, __global STORAGE(TYPE) * out,
                            const long out_offset, const index_t items, const index_t dim,
                            const index_t rows, const index_t n, const index_t n_offsets,
                            const index_t row_stride, const index_t column_stride,
                            const index_t index_stride, const index_t offset_stride,
                            const index_t factor_stride, const long skipped, FAULT_PARAMS) {
  const index_t item = (index_t)get_global_id(0);
  if (item >= items) return;
  const index_t per_bag = (dim + CHUNK - 1) / CHUNK, b = item / per_bag,
                from = item % per_bag * CHUNK;
  const int some = (int)(dim - from < CHUNK ? dim - from : CHUNK);
  const long first = checked_offset(offsets[offsets_offset + b * offset_stride], b == 0 ? 0 : n,
                                    fault, fault_node);
  const long last =
      b + 1 == n_offsets
          ? n
          : checked_offset(offsets[offsets_offset + (b + 1) * offset_stride], n, fault, fault_node);
  real total[CHUNK];
  for (int k = 0; k < CHUNK; k++) total[k] = 0;
  index_t count = 0;
  for (long i = first < 0 ? last : first; i < last; i++) {
    const long r = indices[indices_offset + i * index_stride];
    if (r < 0 || r >= rows) {
      set_fault(fault, fault_node, FAULT_INDEX, r, 0, rows - 1);
      continue;
    }
#if SKIP
    if (r == skipped) continue;
#endif
#if FACTORS
    const real factor = LOAD(TYPE, factors, factors_offset + i * factor_stride);
#endif
    const __global STORAGE(TYPE) *row =
        weight + weight_offset + (index_t)r * row_stride + from * column_stride;
    for (int k = 0; k < some; k++) {
      const real v = LOAD(TYPE, row, k * column_stride);
#if KIND == MAX
      total[k] = count == 0 || v > total[k] || v != v ? v : total[k];
#elif FACTORS
      total[k] += factor * v;
#else
      total[k] += v;
#endif
    }
    count++;
  }
  for (int k = 0; k < some; k++) {
    const real v = KIND == MEAN && count > 0 ? total[k] / (real)count : total[k];
    STORE(TYPE, out, out_offset + b * dim + from + k, v);
  }
}
