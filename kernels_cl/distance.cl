/* out[batch, i, j] = the p-norm of a[batch, i, :] - b[batch, j, :]. KIND: 0, 1 and 2 are that p, 3 is infinity, 4 any other.
 * A work-item makes one element; float sums are taken over BLOCK terms and then added up. */
#include "common.h"
#ifndef TYPE
#define TYPE F32
#endif
#ifndef KIND
#define KIND 2
#endif
#define INFINITE 3
#define BLOCK 128

#if KIND == 0
#define TERM(d) ((d) != (d) ? (d) : (real)((d) != 0))
#elif KIND == 2
#define TERM(d) ((d) * (d))
#elif KIND == 4
#define TERM(d) pow(fabs(d), p)
#else
#define TERM(d) fabs(d)
#endif
#if KIND == INFINITE
#define ADD(a, b) ((b) > (a) || (b) != (b) ? (b) : (a))
#else
#define ADD(a, b) ((a) + (b))
#endif

__kernel void distance_rows(const __global STORAGE(TYPE) *a, const long a_offset, const __global STORAGE(TYPE) *b,
                            const long b_offset, __global STORAGE(TYPE) *out, const long out_offset, const index_t items,
                            const index_t n_a, const index_t n_b, const index_t m, const real p) {
  const index_t item = (index_t)get_global_id(0);
  if (item >= items) return;
  const index_t row = item / n_b;
  a += a_offset + row * m;
  b += b_offset + (row / n_a * n_b + item % n_b) * m;
  real total = 0;
  for (index_t from = 0; from < m; from += BLOCK) {
    const index_t end = from + BLOCK < m ? from + BLOCK : m;
    real block = 0;
    for (index_t i = from; i < end; i++) {
      const real d = LOAD(TYPE, a, i) - LOAD(TYPE, b, i), term = TERM(d);
      block = ADD(block, term);
    }
    total = ADD(total, block);
  }
#if KIND == 2
  total = sqrt(total);
#elif KIND == 4
  total = pow(total, 1 / p);
#endif
  STORE(TYPE, out + out_offset, item, total);
}
