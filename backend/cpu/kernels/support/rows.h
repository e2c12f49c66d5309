#ifndef BACKEND_CPU_KERNELS_SUPPORT_ROWS_H
#define BACKEND_CPU_KERNELS_SUPPORT_ROWS_H
/* Rows of elements between their stored dtype and the type that kernels compute in. */
#include "base/kernel.h"

/* What a dtype is computed in: float for floats up to F32, double for F64, int64_t for integers and
 * BOOL, where U64 is its bits. */
typedef enum compute_class { COMPUTE_F32, COMPUTE_F64, COMPUTE_I64 } compute_class;
compute_class compute_class_of(dtype t);
size_t compute_size(compute_class c); /* bytes per element */

enum { ROW_BLOCK = 256 }; /* elements that row buffers on the stack hold */

/* A row buffer of any class. */
typedef union row_block {
  float f32[ROW_BLOCK];
  double f64[ROW_BLOCK];
  int64_t i64[ROW_BLOCK];
} row_block;

/* to[i] = from[i * stride] for i < n, from dtype `t` into class `c`. Every pair works; floats go to
 * integers as float_to_i64 says. */
void load_row(compute_class c, dtype t, const void *from, int64_t stride, int64_t n, void *to);
/* to[i * stride] = from[i]. Rounds once, to nearest even; integers wrap; BOOL is != 0. */
void store_row(compute_class c, dtype t, void *to, int64_t stride, int64_t n, const void *from);

/* I8, U8, I16 and I32. */
bool is_small_int(dtype t);
/* Casts floats to one of those: toward zero; what no 32 bits hold gives their least value, which
 * then wraps. */
void cast_row(dtype t, void *to, int64_t n, const float *from);

/* Rounds floats to a dtype narrower than F32 (other dtypes: no change). */
void round_row(dtype t, float *x, int64_t n);
/* Wraps integers to an integer dtype; BOOL becomes 0 or 1. */
void wrap_row(dtype t, int64_t *x, int64_t n);

/* Toward zero. NaN and what does not fit give INT64_MIN, as x86 does. */
static inline int64_t float_to_i64(double x) {
  return x >= -9223372036854775808.0 && x < 9223372036854775808.0 ? (int64_t)x : INT64_MIN;
}
/* The same for U64, as its bits; from 2^64 on 0, as PyTorch gives there. */
static inline int64_t float_to_u64(double x) {
  if (x >= 9223372036854775808.0) return x < 18446744073709551616.0 ? (int64_t)(uint64_t)x : 0;
  return float_to_i64(x);
}
/* Rounds to odd, so that a second rounding to a narrower type gives what one rounding of x would.
 */
float narrow_to_odd(double x);

/* Address of element `index` of an array of dtype t. */
static inline void *element_at(const void *data, dtype t, int64_t index) {
  return (char *)(uintptr_t)data + index * (int64_t)dtype_size(t);
}

#endif
