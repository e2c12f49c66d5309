#ifndef BACKEND_CPU_KERNELS_SUPPORT_ROWS_H
#define BACKEND_CPU_KERNELS_SUPPORT_ROWS_H
/* Converts rows of elements between their stored dtype and the type that kernels compute in. */
#include "base/kernel.h"

/* The type that a dtype is computed in: float for floats up to F32, double for F64, int64_t for
 * integers and BOOL. U64 keeps its bits. */
typedef enum compute_type { COMPUTE_F32, COMPUTE_F64, COMPUTE_I64 } compute_type;
compute_type compute_type_of(dtype t);
size_t compute_size(compute_type c); /* bytes per element */

enum { ROW_BLOCK = 256 }; /* capacity of row buffers on the stack, elements */

/* A row buffer for any compute type. */
typedef union row_block {
  float f32[ROW_BLOCK];
  double f64[ROW_BLOCK];
  int64_t i64[ROW_BLOCK];
} row_block;

/* to[i] = from[i * stride] for i < n, from dtype `t` to class `c`. Every combination is supported.
 * Floats convert to integers as in float_to_i64. */
void load_row(compute_type c, dtype t, const void *from, int64_t stride, int64_t n, void *to);
/* to[i * stride] = from[i]. Rounds once, to nearest even; integers wrap; BOOL is != 0. */
void store_row(compute_type c, dtype t, void *to, int64_t stride, int64_t n, const void *from);

/* True for I8, U8, I16 and I32. */
bool is_small_int(dtype t);
/* Casts floats to a dtype of is_small_int. Truncates toward zero. Values that do not fit in an
 * int32_t become INT32_MIN, which then wraps. */
void cast_row(dtype t, void *to, int64_t n, const float *from);

/* Rounds floats to a dtype narrower than F32 (other dtypes: no change). */
void round_row(dtype t, float *x, int64_t n);
/* Wraps integers to an integer dtype; BOOL becomes 0 or 1. */
void wrap_row(dtype t, int64_t *x, int64_t n);

/* Truncates toward zero. Returns INT64_MIN for NaN and values that do not fit, as x86 does. */
static inline int64_t float_to_i64(double x) {
  return x >= -9223372036854775808.0 && x < 9223372036854775808.0 ? (int64_t)x : INT64_MIN;
}
/* Works like float_to_i64, but returns a U64's bits. Values of 2^64 and more return 0, as in
 * PyTorch. */
static inline int64_t float_to_u64(double x) {
  if (x >= 9223372036854775808.0) return x < 18446744073709551616.0 ? (int64_t)(uint64_t)x : 0;
  return float_to_i64(x);
}
/* Rounds to odd, so that rounding the result again to a narrower type equals rounding x once. */
float round_to_odd(double x);

/* Returns the address of element `index` of an array of dtype t. */
static inline void *element_at(const void *data, dtype t, int64_t index) {
  return (char *)(uintptr_t)data + index * (int64_t)dtype_size(t);
}

#endif
