/* out[i] = start + i * step, and out[i] = value; out is contiguous. */
#include "common.h"
#ifndef OUT_TYPE
#define OUT_TYPE F32
#endif

__kernel void arange(__global STORAGE(OUT_TYPE) * out, const long out_offset, const index_t n,
                     const real start, const real step) {
  const index_t i = (index_t)get_global_id(0);
  if (i >= n) return;
  STORE(OUT_TYPE, out + out_offset, i, start + (real)i * step);
}

__kernel void full(__global STORAGE(OUT_TYPE) * out, const long out_offset, const index_t n,
                   const real value) {
  const index_t i = (index_t)get_global_id(0);
  if (i >= n) return;
  STORE(OUT_TYPE, out + out_offset, i, value);
}
