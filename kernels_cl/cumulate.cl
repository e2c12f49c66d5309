/* out[k, i] = x[k, 0] + ... + x[k, i], or the product (PROD). k counts the kept dimensions, i the axis.
 * A work-item takes W neighbours of k and walks i. Float sums are taken over BLOCK elements of i and added to the sum of
 * the blocks before, which is kept with what rounding lost: total - extra. */
#include "common.h"
#ifndef X_TYPE
#define X_TYPE F32
#endif
#ifndef OUT_TYPE
#define OUT_TYPE F32
#endif
#ifndef PROD
#define PROD 0
#endif
#include "vector.h"
DEFINE_SOME(X_TYPE)
DEFINE_KEEP(OUT_TYPE)

__kernel void cumulate(const __global STORAGE(X_TYPE) *x, const long x_offset, __global STORAGE(OUT_TYPE) *out,
                       const long out_offset, const index8 kept_dims, const index8 x_strides, const index8 out_strides,
                       const index_t groups, const index_t row_size, const index_t n, const index_t x_step,
                       const index_t out_step) {
  const index_t item = (index_t)get_global_id(0);
  if (item >= groups) return;
  const index_t per_row = (row_size + W - 1) / W;
  const index_t column = item % per_row * W, k = item / per_row * row_size + column;
  const int some = (int)(row_size - column < W ? row_size - column : W);
  x += x_offset + strided_offset(k, kept_dims, x_strides);
  out += out_offset + strided_offset(k, kept_dims, out_strides);
#if IS_FLOAT(COMPUTE) && !PROD
  realw total = (realw)0, extra = (realw)0;
  for (index_t from = 0; from < n; from += BLOCK) {
    const index_t end = from + BLOCK < n ? from + BLOCK : n;
    const realw before = total - extra;
    realw block = (realw)0;
    for (index_t i = from; i < end; i++) {
      block += LOAD_SOME(X_TYPE, x + i * x_step, some);
      STORE_SOME(OUT_TYPE, out + i * out_step, some, before + block);
    }
    const realw y = block - extra, t = total + y, lost = (t - total) - y;
    extra = (lost - lost) == 0 ? lost : (realw)0; /* not after an infinity */
    total = t;
  }
#else
  realw total = (realw)(PROD ? 1 : 0);
  for (index_t i = 0; i < n; i++) {
    const realw v = LOAD_SOME(X_TYPE, x + i * x_step, some);
#if PROD
    total *= v;
#else
    total += v;
#endif
    STORE_SOME(OUT_TYPE, out + i * out_step, some, total);
  }
#endif
}
