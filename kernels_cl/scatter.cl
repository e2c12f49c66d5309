/* out[f, index[f, i], k] = KIND(out[f, index[f, i], k], source[f, i, k]). i is along the axis, k
 * over the dimensions after it along which the index does not change, f over all others. Equal
 * indices combine in their order. An index out of range is reported and left out. Sums and products
 * of F16 and BF16 are kept in F32 and rounded once.
 *
 *   scatter_walk      a work-item walks all i for CHUNK neighbours of k and one of `shares` ranges
 *                     of destinations. WRAP: negative indices count from the end. DENSE: k is one
 *                     dimension of stride 1 in source and out. IN_F32: `wide` holds the
 *                     destinations in F32 meanwhile, at the same offsets as out
 *   scatter_segments  places lists the i of each line in the order of their indices; the work-item
 *                     of the first of equal indices combines them all */
#include "common.h"
#ifndef TYPE
#define TYPE F32
#endif
#ifndef INDEX_TYPE
#define INDEX_TYPE I64
#endif
#ifndef KIND
#define KIND 1
#endif
#ifndef CHUNK
#define CHUNK 64
#endif
#ifndef DENSE
#define DENSE 1
#endif

#ifndef WRAP
#define WRAP 0
#endif
#ifndef IN_F32
#define IN_F32 0
#endif

#define ASSIGN 0
#define ADD 1
#define MUL 2
#define MAX 3
#define MIN 4

#if KIND == ADD
#define COMBINE(a, b) ((a) + (b))
#elif KIND == MUL
#define COMBINE(a, b) ((a) * (b))
#elif KIND == MAX
#define COMBINE(a, b) ((a) > (b) || (a) != (a) ? (a) : (b))
#else
#define COMBINE(a, b) ((a) < (b) || (a) != (a) ? (a) : (b))
#endif

#if IN_F32
#define SUM F32
#define SUMS wide
#else
#define SUM TYPE
#define SUMS out
#endif

/* sums[to] = KIND(sums[to], source[from]) */
static inline void combine(__global STORAGE(SUM) * sums, const index_t to,
                           const __global STORAGE(TYPE) * source, const index_t from) {
#if KIND == ASSIGN
  sums[to] = source[from];
#else
  const real a = LOAD(SUM, sums, to), b = LOAD(TYPE, source, from);
  STORE(SUM, sums, to, COMBINE(a, b));
#endif
}

#if DENSE
#define AT(k, strides) (k)
#else
#define AT(k, strides) strided_offset(k, back_dims, strides)
#endif

/* Executes FOR_EACH(row) for the rows of out that have destinations in [low, high). If there are
 * fewer entries than destinations, it visits only rows that entries write to, some of them
 * repeatedly. */
#define EACH_DESTINATION(FOR_EACH)                                         \
  if (n < high - low) {                                                    \
    for (index_t i = 0; i < n; i++) {                                      \
      const long to = destination(index[i * index_stride], size);          \
      if (to >= low && to < high) FOR_EACH((index_t)to *out_stride)        \
    }                                                                      \
  } else {                                                                 \
    for (long to = low; to < high; to++) FOR_EACH((index_t)to *out_stride) \
  }
#define WIDEN_ROW(row)                         \
  for (index_t k = from; k < end; k++) {       \
    const index_t at = row + AT(k, out_back);  \
    STORE(F32, wide, at, LOAD(TYPE, out, at)); \
  }
#define NARROW_ROW(row)                        \
  for (index_t k = from; k < end; k++) {       \
    const index_t at = row + AT(k, out_back);  \
    STORE(TYPE, out, at, LOAD(F32, wide, at)); \
  }

static inline long destination(const long given, const index_t size) {
  return WRAP && given < 0 ? given + size : given;
}

#define SCATTER_PARAMS                                                                \
  const __global STORAGE(TYPE) * source, const long source_offset,                    \
      const __global STORAGE(INDEX_TYPE) * index, const long index_offset,            \
      __global STORAGE(TYPE) * out, const long out_offset, const index8 front_dims,   \
      const index8 source_front, const index8 index_front, const index8 out_front,    \
      const index8 back_dims, const index8 source_back, const index8 out_back,        \
      const index_t items, const index_t n, const index_t n_back, const index_t size, \
      const index_t source_stride, const index_t index_stride, const index_t out_stride

__kernel void scatter_walk(SCATTER_PARAMS, __global float *wide, const long wide_offset,
                           const index_t shares, FAULT_PARAMS) {
  const index_t item = (index_t)get_global_id(0);
  if (item >= items) return;
  const index_t per_row = (n_back + CHUNK - 1) / CHUNK, share = item / per_row % shares,
                f = item / per_row / shares;
  const index_t from = item % per_row * CHUNK, end = from + CHUNK < n_back ? from + CHUNK : n_back;
  const long low = (long)size * share / shares, high = (long)size * (share + 1) / shares;
  source += source_offset + strided_offset(f, front_dims, source_front);
  index += index_offset + strided_offset(f, front_dims, index_front);
  out += out_offset + strided_offset(f, front_dims, out_front);
#if IN_F32
  wide += wide_offset + strided_offset(f, front_dims, out_front);
  EACH_DESTINATION(WIDEN_ROW)
#endif
  for (index_t i = 0; i < n; i++) {
    const long given = index[i * index_stride], to = destination(given, size);
    if (to < 0 || to >= size)
      set_fault(fault, fault_node, FAULT_INDEX, given, WRAP ? -(long)size : 0, size - 1);
    if (to < low || to >= high) continue;
    const index_t row = (index_t)to * out_stride;
    for (index_t k = from; k < end; k++)
      combine(SUMS, row + AT(k, out_back), source, i * source_stride + AT(k, source_back));
  }
#if IN_F32
  EACH_DESTINATION(NARROW_ROW)
#endif
}

__kernel void scatter_segments(SCATTER_PARAMS, const __global uint *places,
                               const long places_offset, const index_t pitch,
                               const index_t place_stride, FAULT_PARAMS) {
  const index_t item = (index_t)get_global_id(0);
  if (item >= items) return;
  const index_t k = item % n_back, first = item / n_back % n, f = item / n_back / n;
  places += places_offset + (long)f * pitch;
  index += index_offset + strided_offset(f, front_dims, index_front);
  const long to = index[(index_t)places[first * place_stride] * index_stride];
  if (first > 0 && index[(index_t)places[(first - 1) * place_stride] * index_stride] == to) return;
  if (to < 0 || to >= size) {
    set_fault(fault, fault_node, FAULT_INDEX, to, 0, size - 1);
    return;
  }
  source += source_offset + strided_offset(f, front_dims, source_front) +
            strided_offset(k, back_dims, source_back);
  out += out_offset + strided_offset(f, front_dims, out_front) +
         strided_offset(k, back_dims, out_back);
#if KIND == ASSIGN
  for (index_t i = first; i < n && index[(index_t)places[i * place_stride] * index_stride] == to;
       i++)
    combine(out, (index_t)to * out_stride, source,
            (index_t)places[i * place_stride] * source_stride);
#else
  real sum = LOAD(TYPE, out, (index_t)to * out_stride);
  for (index_t i = first; i < n; i++) {
    const index_t place = (index_t)places[i * place_stride];
    if (index[place * index_stride] != to) break;
    const real b = LOAD(TYPE, source, place * source_stride);
    sum = COMBINE(sum, b);
  }
  STORE(TYPE, out, (index_t)to * out_stride, sum);
#endif
}
