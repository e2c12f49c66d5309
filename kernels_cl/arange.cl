/* arange: out[i] = start + i * step. full: out[i] = value. out is contiguous. Integer dtypes have
 * integer arguments, since a double does not represent all 64-bit integers. */
#include "common.h"
#ifndef OUT_TYPE
#define OUT_TYPE F32
#endif

#if IS_FLOAT(COMPUTE)
#define CHOOSE(number, integer) (number)
#else
#define CHOOSE(number, integer) (integer)
#endif

__kernel void arange(__global STORAGE(OUT_TYPE) * out, const long out_offset, const index_t n,
                     const real start, const real step, const long int_start, const long int_step) {
  const index_t i = (index_t)get_global_id(0);
  if (i >= n) return;
  STORE(OUT_TYPE, out + out_offset, i, CHOOSE(start, int_start) + (real)i * CHOOSE(step, int_step));
}

__kernel void full(__global STORAGE(OUT_TYPE) * out, const long out_offset, const index_t n,
                   const real value, const long int_value) {
  const index_t i = (index_t)get_global_id(0);
  if (i >= n) return;
  STORE(OUT_TYPE, out + out_offset, i, CHOOSE(value, int_value));
}
