/* Positions of the nonzero elements, in row-major order. A work-item processes a chunk of x.
 *   nonzero_count  counts[c] = the number of nonzero elements in chunk c
 *   nonzero_write  out[j] = the coordinates of the j-th nonzero element, 0 after the last; count =
 *                  the number of nonzero elements
 * TYPE has the size of the elements. SHIFT moves the bits of an element to the top of 64 bits, and
 * the sign of a float out of them. */
#include "common.h"
#ifndef TYPE
#define TYPE I32
#endif
#ifndef SHIFT
#define SHIFT 33
#endif

#define IS_NONZERO(v) (((ulong)(v) << SHIFT) != 0)

__kernel void nonzero_count(const __global STORAGE(TYPE) * x, const long x_offset,
                            __global long *counts, const long counts_offset, const index_t chunks,
                            const index_t chunk, const index_t n) {
  const index_t c = (index_t)get_global_id(0);
  if (c >= chunks) return;
  const index_t from = c * chunk, end = n - from < chunk ? n : from + chunk;
  long found = 0;
  for (index_t i = from; i < end; i++) found += IS_NONZERO(x[x_offset + i]);
  counts[counts_offset + c] = found;
}

__kernel void nonzero_write(const __global STORAGE(TYPE) * x, const long x_offset,
                            const __global long *counts, const long counts_offset,
                            __global long *out, const long out_offset, __global long *count,
                            const long count_offset, const index8 dims, const index_t chunks,
                            const index_t chunk, const index_t n, const int rank) {
  const index_t c = (index_t)get_global_id(0);
  if (c >= chunks) return;
  const index_t from = c * chunk, end = n - from < chunk ? n : from + chunk;
  long before = 0, total = 0;
  for (index_t i = 0; i < chunks; i++) {
    const long found = counts[counts_offset + i];
    before += i < c ? found : 0;
    total += found;
  }
  if (c == 0) count[count_offset] = total;
  index_t size[8]; /* innermost first */
  vstore8(dims, 0, size);
  __global long *to = out + out_offset + before * rank;
  for (index_t i = from; i < end; i++) {
    if (!IS_NONZERO(x[x_offset + i])) continue;
    index_t rest = i;
    for (int d = 0; d < rank; d++) {
      to[rank - 1 - d] = rest % size[d];
      rest /= size[d];
    }
    to += rank;
  }
  for (long i = from > total ? from : total; i < end; i++)
    for (int d = 0; d < rank; d++) out[out_offset + i * rank + d] = 0;
}
