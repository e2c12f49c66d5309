/* out[k, i] = exp(x[k, i] - m[k]) / sum over j of exp(x[k, j] - m[k]), where m[k] is the maximum.
 * LOG: x - m - log(sum). k counts the kept dimensions, i is the axis. ROW: the axis has stride 1 in
 * x and out, and a work-item (or a TEAM) computes one k, W neighbours of i at once. Else a
 * work-item computes W neighbours of k. A row of -INFINITY yields NaN. */
#include "common.h"
#ifndef X_TYPE
#define X_TYPE F32
#endif
#ifndef LOG
#define LOG 0
#endif
#ifndef ROW
#define ROW 1
#endif
#include "vector.h"
#if !ROW
DEFINE_SOME(X_TYPE)
DEFINE_KEEP(X_TYPE)
#endif

/* The exponentials are kept in out if storing does not round them. */
#define KEEP_EXP (!LOG && (IS_F32(X_TYPE) || IS_F64(X_TYPE)))

typedef __global STORAGE(X_TYPE) * out_pointer;
typedef const __global STORAGE(X_TYPE) * x_pointer;

#if ROW
/* Returns the maximum of this lane's share of a row. */
static inline real row_max(x_pointer x, index_t n) {
  realw v = (realw)(-INFINITY);
  index_t i = LANE * W;
  for (; i + W <= n; i += TEAM * W) {
    const realw t = LOADW(X_TYPE, x + i);
    v = larger(v, t);
  }
#if W == 1
  real m = v;
#else
  real lanes[W];
  vstore16(v, 0, lanes);
  real m = lanes[0];
  for (int l = 1; l < W; l++) m = larger(m, lanes[l]);
#endif
  for (i = n / W * W + LANE; i < n; i += TEAM) {
    const real t = LOAD(X_TYPE, x, i);
    m = larger(m, t);
  }
  return m;
}

static inline real row_sum(x_pointer x, out_pointer out, index_t n, real m) {
  real total = 0;
  for (index_t from = 0; from < n; from += BLOCK * W * TEAM) {
    const index_t end = from + BLOCK * W * TEAM < n ? from + BLOCK * W * TEAM : n;
    realw v = (realw)0;
    index_t i = from + LANE * W;
    for (; i + W <= end; i += TEAM * W) {
      const realw e = exp(LOADW(X_TYPE, x + i) - m);
      if (KEEP_EXP) STOREW(X_TYPE, out + i, e);
      v += e;
    }
    real partial = fold_add(v);
    for (i = from + (end - from) / W * W + LANE; i < end; i += TEAM) {
      const real e = exp(LOAD(X_TYPE, x, i) - m);
      if (KEEP_EXP) STORE(X_TYPE, out, i, e);
      partial += e;
    }
    total += partial;
  }
  return total;
}
#endif

#if LOG
#define RESULT(v, m, total) ((v) - (m)) - (total)
#elif KEEP_EXP
#define RESULT(v, m, total) (v) / (total)
#else
#define RESULT(v, m, total) exp((v) - (m)) / (total)
#endif
#if KEEP_EXP
#define SOURCE out
#define SOURCE_STEP out_stride
#else
#define SOURCE x
#define SOURCE_STEP x_stride
#endif

#if ROW
static inline void write_row(x_pointer x, out_pointer out, index_t n, real m, real total) {
  index_t i = LANE * W;
  for (; i + W <= n; i += TEAM * W) {
    const realw v = LOADW(X_TYPE, SOURCE + i);
    const realw r = RESULT(v, m, total);
    STOREW(X_TYPE, out + i, r);
  }
  for (i = n / W * W + LANE; i < n; i += TEAM) {
    const real v = LOAD(X_TYPE, SOURCE, i);
    const real r = RESULT(v, m, total);
    STORE(X_TYPE, out, i, r);
  }
}
#else
/* Computes `some` <= W neighbours of k at x and out; their elements are x_stride and out_stride
 * apart. */
static inline void softmax_columns(x_pointer x, out_pointer out, index_t n, index_t x_stride,
                                   index_t out_stride, int some) {
  realw m = (realw)(-INFINITY), total = (realw)0;
  for (index_t i = 0; i < n; i++) {
    const realw v = LOAD_SOME(X_TYPE, x + i * x_stride, some);
    m = larger(m, v);
  }
  for (index_t from = 0; from < n; from += BLOCK) {
    const index_t end = from + BLOCK < n ? from + BLOCK : n;
    realw partial = (realw)0;
    for (index_t i = from; i < end; i++) {
      const realw e = exp(LOAD_SOME(X_TYPE, x + i * x_stride, some) - m);
      if (KEEP_EXP) STORE_SOME(X_TYPE, out + i * out_stride, some, e);
      partial += e;
    }
    total += partial;
  }
#if LOG
  total = log(total);
#endif
  for (index_t i = 0; i < n; i++) {
    const realw v = LOAD_SOME(X_TYPE, SOURCE + i * SOURCE_STEP, some);
    const realw r = RESULT(v, m, total);
    STORE_SOME(X_TYPE, out + i * out_stride, some, r);
  }
}
#endif

/* groups: work-items (or teams). Strides are per kept dimension, x_stride and out_stride per i. */
__kernel void softmax(const __global STORAGE(X_TYPE) * x, const long x_offset,
                      __global STORAGE(X_TYPE) * out, const long out_offset, const index8 kept_dims,
                      const index8 x_strides, const index8 out_strides, const index_t groups,
                      const index_t row_size, const index_t n, const index_t x_stride,
                      const index_t out_stride) {
  TEAM_MEMORY(memory);
  const index_t item = (index_t)TEAM_INDEX;
  if (TEAM == 1 && item >= groups) return;
#if ROW
  const index_t k = item;
#else
  const index_t per_row = (row_size + W - 1) / W, column = item % per_row * W,
                k = item / per_row * row_size + column;
#endif
  x += x_offset + strided_offset(k, kept_dims, x_strides);
  out += out_offset + strided_offset(k, kept_dims, out_strides);
#if ROW
  const real m = max_team(row_max(x, n), memory);
  real total = sum_team(row_sum(x, out, n, m), memory);
#if LOG
  total = log(total);
#endif
  write_row(x, out, n, m, total);
#else
  softmax_columns(x, out, n, x_stride, out_stride, (int)min(row_size - column, (index_t)W));
#endif
}
