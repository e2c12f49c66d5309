/* Converts rows of elements to and from compute types: one switch over stored dtypes per class. */
#include "backend/cpu/kernels/support/rows.h"

#include <math.h>
#include <string.h>

#include "backend/cpu/kernels/support/features.h"
#if KERNEL_X86
#include <immintrin.h>
#endif

compute_type compute_type_of(dtype t) {
  if (t == DTYPE_F64) return COMPUTE_F64;
  return dtype_has_fractions(t) ? COMPUTE_F32 : COMPUTE_I64;
}

size_t compute_size(compute_type c) { return c == COMPUTE_F32 ? sizeof(float) : sizeof(double); }

float round_to_odd(double x) {
  float f = (float)x;
  if (isnan(x) || (double)f == x) return f;
  uint32_t bits;
  memcpy(&bits, &f, sizeof bits);
  if (fabs((double)f) > fabs(x)) bits--;
  bits |= 1;
  memcpy(&f, &bits, sizeof f);
  return f;
}

/* Converts BF16 with integer arithmetic, so that loops over it vectorise. */
static inline float rows_widen_bf16(uint16_t h) {
  uint32_t bits = (uint32_t)h << 16;
  float f;
  memcpy(&f, &bits, sizeof f);
  return f;
}
static inline uint16_t rows_round_to_bf16(float f) {
  uint32_t bits;
  memcpy(&bits, &f, sizeof bits);
  uint32_t rounded = (bits + 0x7fffU + ((bits >> 16) & 1U)) >> 16;
  uint32_t quiet = (bits >> 16) | 0x40U;
  return (uint16_t)((bits & 0x7fffffffU) > 0x7f800000U ? quiet : rounded);
}

#if KERNEL_X86
TARGET_AVX2 static int64_t load_f16_avx2(const uint16_t *from, int64_t n, float *to) {
  int64_t i = 0;
  for (; i + 8 <= n; i += 8)
    _mm256_storeu_ps(to + i,
                     _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)(from + i))));
  return i;
}
TARGET_AVX2 static int64_t store_f16_avx2(uint16_t *to, int64_t n, const float *from) {
  int64_t i = 0;
  for (; i + 8 <= n; i += 8)
    _mm_storeu_si128((__m128i *)(void *)(to + i), _mm256_cvtps_ph(_mm256_loadu_ps(from + i), 0));
  return i;
}
#endif

static void load_f16(const uint16_t *from, int64_t stride, int64_t n, float *to) {
  int64_t i = 0;
#if KERNEL_X86
  if (stride == 1 && cpu_has_avx2()) i = load_f16_avx2(from, n, to);
#endif
  for (; i < n; i++) to[i] = f16_to_f32(from[i * stride]);
}

static void store_f16(uint16_t *to, int64_t stride, int64_t n, const float *from) {
  int64_t i = 0;
#if KERNEL_X86
  if (stride == 1 && cpu_has_avx2()) i = store_f16_avx2(to, n, from);
#endif
  for (; i < n; i++) to[i * stride] = f32_to_f16(from[i]);
}

/* One case of a load: T is the stored type, `value` an expression of its element v. */
#define LOAD(TAG, T, value)           \
  case TAG: {                         \
    const T *x = from;                \
    for (int64_t i = 0; i < n; i++) { \
      T v = x[i * stride];            \
      to[i] = (value);                \
    }                                 \
    break;                            \
  }

static void load_f32(dtype t, const void *from, int64_t stride, int64_t n, float *to) {
  switch (t) {
    LOAD(DTYPE_F32, float, v)
    LOAD(DTYPE_BF16, uint16_t, rows_widen_bf16(v))
    LOAD(DTYPE_F64, double, (float)v)
    LOAD(DTYPE_I8, int8_t, (float)v)
    LOAD(DTYPE_U8, uint8_t, (float)v)
    LOAD(DTYPE_I16, int16_t, (float)v)
    LOAD(DTYPE_I32, int32_t, (float)v)
    LOAD(DTYPE_I64, int64_t, (float)v)
    LOAD(DTYPE_BOOL, uint8_t, v != 0 ? 1.0F : 0.0F)
    LOAD(DTYPE_U16, uint16_t, (float)v)
    LOAD(DTYPE_U32, uint32_t, (float)v)
    LOAD(DTYPE_U64, uint64_t, (float)v)
    LOAD(DTYPE_F8_E4M3, uint8_t, f8_e4m3_to_f32(v))
    LOAD(DTYPE_F8_E5M2, uint8_t, f8_e5m2_to_f32(v))
    default:
      load_f16(from, stride, n, to);
  }
}

static void load_f64(dtype t, const void *from, int64_t stride, int64_t n, double *to) {
  switch (t) {
    LOAD(DTYPE_F32, float, (double)v)
    LOAD(DTYPE_F16, uint16_t, (double)f16_to_f32(v))
    LOAD(DTYPE_BF16, uint16_t, (double)rows_widen_bf16(v))
    LOAD(DTYPE_F64, double, v)
    LOAD(DTYPE_I8, int8_t, (double)v)
    LOAD(DTYPE_U8, uint8_t, (double)v)
    LOAD(DTYPE_I16, int16_t, (double)v)
    LOAD(DTYPE_I32, int32_t, (double)v)
    LOAD(DTYPE_I64, int64_t, (double)v)
    LOAD(DTYPE_BOOL, uint8_t, v != 0 ? 1.0 : 0.0)
    LOAD(DTYPE_U16, uint16_t, (double)v)
    LOAD(DTYPE_U32, uint32_t, (double)v)
    LOAD(DTYPE_U64, uint64_t, (double)v)
    LOAD(DTYPE_F8_E4M3, uint8_t, (double)f8_e4m3_to_f32(v))
    LOAD(DTYPE_F8_E5M2, uint8_t, (double)f8_e5m2_to_f32(v))
    default:
      break;
  }
}

static void load_i64(dtype t, const void *from, int64_t stride, int64_t n, int64_t *to) {
  switch (t) {
    LOAD(DTYPE_F32, float, float_to_i64((double)v))
    LOAD(DTYPE_F16, uint16_t, float_to_i64((double)f16_to_f32(v)))
    LOAD(DTYPE_BF16, uint16_t, float_to_i64((double)rows_widen_bf16(v)))
    LOAD(DTYPE_F64, double, float_to_i64(v))
    LOAD(DTYPE_I8, int8_t, v)
    LOAD(DTYPE_U8, uint8_t, v)
    LOAD(DTYPE_I16, int16_t, v)
    LOAD(DTYPE_I32, int32_t, v)
    LOAD(DTYPE_I64, int64_t, v)
    LOAD(DTYPE_BOOL, uint8_t, v != 0)
    LOAD(DTYPE_U16, uint16_t, v)
    LOAD(DTYPE_U32, uint32_t, v)
    LOAD(DTYPE_U64, uint64_t, (int64_t)v)
    LOAD(DTYPE_F8_E4M3, uint8_t, float_to_i64((double)f8_e4m3_to_f32(v)))
    LOAD(DTYPE_F8_E5M2, uint8_t, float_to_i64((double)f8_e5m2_to_f32(v)))
    default:
      break;
  }
}

/* ---------------------------------------------------------------- small integers and floats */

bool is_small_int(dtype t) {
  return t == DTYPE_I8 || t == DTYPE_U8 || t == DTYPE_I16 || t == DTYPE_I32;
}

#define LOAD_SMALL(TAG, T)                               \
  case TAG: {                                            \
    const T *x = from;                                   \
    for (int64_t i = 0; i < n; i++) to[i] = (float)x[i]; \
    break;                                               \
  }
KERNEL_INLINE void load_ints(dtype t, const void *from, int64_t n, float *restrict to) {
  switch (t) {
    LOAD_SMALL(DTYPE_I8, int8_t)
    LOAD_SMALL(DTYPE_U8, uint8_t)
    LOAD_SMALL(DTYPE_I16, int16_t)
    default:
      LOAD_SMALL(DTYPE_I32, int32_t)
  }
}

/* Truncates toward zero. Values that do not fit become INT32_MIN; narrower types wrap. */
static inline int32_t cast_to_i32(float x) {
  return x >= -0x1p31F && x < 0x1p31F ? (int32_t)x : INT32_MIN;
}
#define STORE_SMALL(TAG, T)                                         \
  case TAG: {                                                       \
    T *y = to;                                                      \
    for (int64_t i = 0; i < n; i++) y[i] = (T)cast_to_i32(from[i]); \
    break;                                                          \
  }
KERNEL_INLINE void store_ints(dtype t, void *restrict to, int64_t n, const float *restrict from) {
  switch (t) {
    STORE_SMALL(DTYPE_I8, int8_t)
    STORE_SMALL(DTYPE_U8, uint8_t)
    STORE_SMALL(DTYPE_I16, int16_t)
    default:
      STORE_SMALL(DTYPE_I32, int32_t)
  }
}

#if KERNEL_X86
TARGET_AVX2 static void load_ints_avx2(dtype t, const void *from, int64_t n, float *to) {
  load_ints(t, from, n, to);
}
TARGET_AVX2 static void store_ints_avx2(dtype t, void *to, int64_t n, const float *from) {
  store_ints(t, to, n, from);
}
TARGET_AVX512 static void load_ints_avx512(dtype t, const void *from, int64_t n, float *to) {
  load_ints(t, from, n, to);
}
TARGET_AVX512 static void store_ints_avx512(dtype t, void *to, int64_t n, const float *from) {
  store_ints(t, to, n, from);
}
#endif

static void load_small(dtype t, const void *from, int64_t n, float *to) {
#if KERNEL_X86
  if (cpu_has_avx512()) {
    load_ints_avx512(t, from, n, to);
    return;
  }
  if (cpu_has_avx2()) {
    load_ints_avx2(t, from, n, to);
    return;
  }
#endif
  load_ints(t, from, n, to);
}

void cast_row(dtype t, void *to, int64_t n, const float *from) {
#if KERNEL_X86
  if (cpu_has_avx512()) {
    store_ints_avx512(t, to, n, from);
    return;
  }
  if (cpu_has_avx2()) {
    store_ints_avx2(t, to, n, from);
    return;
  }
#endif
  store_ints(t, to, n, from);
}

static bool is_stored_as(dtype t, compute_type c) {
  return t == (c == COMPUTE_F32 ? DTYPE_F32 : c == COMPUTE_F64 ? DTYPE_F64 : DTYPE_I64);
}

/* Copies element 0, of the 32 or 64 bits of its compute type, to all n. */
static void repeat(compute_type c, int64_t n, void *to) {
  uint32_t *words = to;
  uint64_t *longs = to;
  if (c == COMPUTE_F32) {
    const uint32_t word = words[0];
    for (int64_t i = 1; i < n; i++) words[i] = word;
  } else {
    const uint64_t word = longs[0];
    for (int64_t i = 1; i < n; i++) longs[i] = word;
  }
}

void load_row(compute_type c, dtype t, const void *from, int64_t stride, int64_t n, void *to) {
  if (stride == 1 && is_stored_as(t, c)) {
    memcpy(to, from, (size_t)n * compute_size(c));
    return;
  }
  if (stride == 0 && n > 1) {
    load_row(c, t, from, 0, 1, to);
    repeat(c, n, to);
    return;
  }
  if (stride == 1 && c == COMPUTE_F32 && is_small_int(t)) {
    load_small(t, from, n, to);
    return;
  }
  if (c == COMPUTE_F32) load_f32(t, from, stride, n, to);
  if (c == COMPUTE_F64) load_f64(t, from, stride, n, to);
  if (c == COMPUTE_I64) load_i64(t, from, stride, n, to);
}

/* One case of a store: `value` is an expression of the computed element v. */
#define STORE(TAG, T, value)          \
  case TAG: {                         \
    T *y = to;                        \
    for (int64_t i = 0; i < n; i++) { \
      real v = from[i];               \
      y[i * stride] = (T)(value);     \
    }                                 \
    break;                            \
  }

static void store_f32(dtype t, void *to, int64_t stride, int64_t n, const float *from) {
  typedef float real;
  switch (t) {
    STORE(DTYPE_F32, float, v)
    STORE(DTYPE_BF16, uint16_t, rows_round_to_bf16(v))
    STORE(DTYPE_F64, double, v)
    STORE(DTYPE_I8, int8_t, float_to_i64((double)v))
    STORE(DTYPE_U8, uint8_t, float_to_i64((double)v))
    STORE(DTYPE_I16, int16_t, float_to_i64((double)v))
    STORE(DTYPE_I32, int32_t, float_to_i64((double)v))
    STORE(DTYPE_I64, int64_t, float_to_i64((double)v))
    STORE(DTYPE_BOOL, uint8_t, v != 0)
    STORE(DTYPE_U16, uint16_t, float_to_i64((double)v))
    STORE(DTYPE_U32, uint32_t, float_to_i64((double)v))
    STORE(DTYPE_U64, uint64_t, float_to_u64((double)v))
    STORE(DTYPE_F8_E4M3, uint8_t, f32_to_f8_e4m3(v))
    STORE(DTYPE_F8_E5M2, uint8_t, f32_to_f8_e5m2(v))
    default:
      store_f16(to, stride, n, from);
  }
}

static void store_f64(dtype t, void *to, int64_t stride, int64_t n, const double *from) {
  typedef double real;
  switch (t) {
    STORE(DTYPE_F32, float, v)
    STORE(DTYPE_F16, uint16_t, f32_to_f16(round_to_odd(v)))
    STORE(DTYPE_BF16, uint16_t, rows_round_to_bf16(round_to_odd(v)))
    STORE(DTYPE_F64, double, v)
    STORE(DTYPE_I8, int8_t, float_to_i64(v))
    STORE(DTYPE_U8, uint8_t, float_to_i64(v))
    STORE(DTYPE_I16, int16_t, float_to_i64(v))
    STORE(DTYPE_I32, int32_t, float_to_i64(v))
    STORE(DTYPE_I64, int64_t, float_to_i64(v))
    STORE(DTYPE_BOOL, uint8_t, v != 0)
    STORE(DTYPE_U16, uint16_t, float_to_i64(v))
    STORE(DTYPE_U32, uint32_t, float_to_i64(v))
    STORE(DTYPE_U64, uint64_t, float_to_u64(v))
    STORE(DTYPE_F8_E4M3, uint8_t, f32_to_f8_e4m3((float)v))
    STORE(DTYPE_F8_E5M2, uint8_t, f32_to_f8_e5m2((float)v))
    default:
      break;
  }
}

static void store_i64(dtype t, void *to, int64_t stride, int64_t n, const int64_t *from) {
  typedef int64_t real;
  switch (t) {
    STORE(DTYPE_F32, float, v)
    STORE(DTYPE_F16, uint16_t, f32_to_f16((float)v))
    STORE(DTYPE_BF16, uint16_t, rows_round_to_bf16((float)v))
    STORE(DTYPE_F64, double, v)
    STORE(DTYPE_I8, int8_t, v)
    STORE(DTYPE_U8, uint8_t, v)
    STORE(DTYPE_I16, int16_t, v)
    STORE(DTYPE_I32, int32_t, v)
    STORE(DTYPE_I64, int64_t, v)
    STORE(DTYPE_BOOL, uint8_t, v != 0)
    STORE(DTYPE_U16, uint16_t, v)
    STORE(DTYPE_U32, uint32_t, v)
    STORE(DTYPE_U64, uint64_t, v)
    STORE(DTYPE_F8_E4M3, uint8_t, f32_to_f8_e4m3((float)v))
    STORE(DTYPE_F8_E5M2, uint8_t, f32_to_f8_e5m2((float)v))
    default:
      break;
  }
}

void store_row(compute_type c, dtype t, void *to, int64_t stride, int64_t n, const void *from) {
  if (stride == 1 && is_stored_as(t, c)) {
    memcpy(to, from, (size_t)n * compute_size(c));
    return;
  }
  if (c == COMPUTE_F32) store_f32(t, to, stride, n, from);
  if (c == COMPUTE_F64) store_f64(t, to, stride, n, from);
  if (c == COMPUTE_I64) store_i64(t, to, stride, n, from);
}

/* Rounds by storing blocks as t and loading them again. */
static void round_stored(dtype t, float *x, int64_t n) {
  uint16_t stored[ROW_BLOCK];
  for (int64_t i = 0; i < n; i += ROW_BLOCK) {
    int64_t m = n - i < ROW_BLOCK ? n - i : ROW_BLOCK;
    store_f32(t, stored, 1, m, x + i);
    load_f32(t, stored, 1, m, x + i);
  }
}

void round_row(dtype t, float *x, int64_t n) {
  if (t == DTYPE_BF16)
    for (int64_t i = 0; i < n; i++) x[i] = rows_widen_bf16(rows_round_to_bf16(x[i]));
  if (t == DTYPE_F16 || t == DTYPE_F8_E4M3 || t == DTYPE_F8_E5M2) round_stored(t, x, n);
}

#define WRAP(TAG, value)                            \
  case TAG:                                         \
    for (int64_t i = 0; i < n; i++) x[i] = (value); \
    break;

void wrap_row(dtype t, int64_t *x, int64_t n) {
  switch (t) {
    WRAP(DTYPE_I8, (int8_t)x[i])
    WRAP(DTYPE_U8, (uint8_t)x[i])
    WRAP(DTYPE_I16, (int16_t)x[i])
    WRAP(DTYPE_I32, (int32_t)x[i])
    WRAP(DTYPE_BOOL, x[i] != 0)
    WRAP(DTYPE_U16, (uint16_t)x[i])
    WRAP(DTYPE_U32, (uint32_t)x[i])
    default:
      break;
  }
}
