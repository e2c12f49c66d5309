/* Inner loops over contiguous floats: 16-byte vectors on any processor, 32-byte vectors with AVX2
 * and FMA, 64-byte vectors with AVX-512. */
#include "backend/cpu/kernels/support/vector.h"

#include <math.h>
#include <string.h>

#include "backend/cpu/kernels/elementwise/steps.h"
#include "backend/cpu/kernels/support/avx512.h"
#include "backend/cpu/kernels/support/vec4.h"

static float dot_portable(int64_t n, const float *a, const float *b) {
  vec4 s0 = {0}, s1 = {0}, s2 = {0}, s3 = {0};
  int64_t i = 0;
  for (; i + 16 <= n; i += 16) {
    s0 = vec4_add_product(s0, vec4_load(a + i), vec4_load(b + i));
    s1 = vec4_add_product(s1, vec4_load(a + i + 4), vec4_load(b + i + 4));
    s2 = vec4_add_product(s2, vec4_load(a + i + 8), vec4_load(b + i + 8));
    s3 = vec4_add_product(s3, vec4_load(a + i + 12), vec4_load(b + i + 12));
  }
  vec4 s = (s0 + s1) + (s2 + s3);
  float sum = (s[0] + s[1]) + (s[2] + s[3]);
  for (; i < n; i++) sum += a[i] * b[i];
  return sum;
}

static void sums_portable(int64_t n, int rows, const weighted_row *row, int64_t stride, float *y) {
  for (int64_t i = 0; i < n; i++) y[i] = 0;
  for (; rows > 0; rows--, row++)
    for (int64_t i = row->first; i < row->stop; i++)
      y[i] += row->weight * row->x[(i - row->first) * stride];
}

static void axpy_portable(int64_t n, float s, const float *restrict x, float *restrict y) {
  for (int64_t i = 0; i < n; i++) y[i] += s * x[i];
}

#if KERNEL_X86
TARGET_AVX2 static float dot_avx2(int64_t n, const float *a, const float *b) {
  __m256 s0 = _mm256_setzero_ps(), s1 = s0, s2 = s0, s3 = s0;
  int64_t i = 0;
  for (; i + 32 <= n; i += 32) {
    s0 = _mm256_fmadd_ps(_mm256_loadu_ps(a + i), _mm256_loadu_ps(b + i), s0);
    s1 = _mm256_fmadd_ps(_mm256_loadu_ps(a + i + 8), _mm256_loadu_ps(b + i + 8), s1);
    s2 = _mm256_fmadd_ps(_mm256_loadu_ps(a + i + 16), _mm256_loadu_ps(b + i + 16), s2);
    s3 = _mm256_fmadd_ps(_mm256_loadu_ps(a + i + 24), _mm256_loadu_ps(b + i + 24), s3);
  }
  for (; i + 8 <= n; i += 8)
    s0 = _mm256_fmadd_ps(_mm256_loadu_ps(a + i), _mm256_loadu_ps(b + i), s0);
  float lane[8], sum = 0;
  _mm256_storeu_ps(lane, _mm256_add_ps(_mm256_add_ps(s0, s1), _mm256_add_ps(s2, s3)));
  for (; i < n; i++) sum += a[i] * b[i];
  for (int k = 0; k < 8; k++) sum += lane[k];
  return sum;
}

TARGET_AVX2 static void axpy_avx2(int64_t n, float s, const float *x, float *y) {
  __m256 v = _mm256_set1_ps(s);
  int64_t i = 0;
  for (; i + 8 <= n; i += 8)
    _mm256_storeu_ps(y + i, _mm256_fmadd_ps(v, _mm256_loadu_ps(x + i), _mm256_loadu_ps(y + i)));
  for (; i < n; i++) y[i] = __builtin_fmaf(s, x[i], y[i]);
}

/* Returns x[0], x[2], ..., x[14]. Also loads x[15]. */
TARGET_AVX2 KERNEL_INLINE __m256 even_avx2(const float *x) {
  const __m256 halves = _mm256_shuffle_ps(_mm256_loadu_ps(x), _mm256_loadu_ps(x + 8), 0x88);
  return _mm256_castpd_ps(_mm256_permute4x64_pd(_mm256_castps_pd(halves), 0xD8));
}

/* Computes cells [from, to), which some rows do not contain. */
TARGET_AVX2 static void sums_of_some(int64_t from, int64_t to, int rows, const weighted_row *row,
                                     int64_t stride, float *y) {
  for (int64_t i = from; i < to; i++) {
    float sum = 0;
    for (int t = 0; t < rows; t++)
      if (i >= row[t].first && i < row[t].stop)
        sum = __builtin_fmaf(row[t].weight, row[t].x[(i - row[t].first) * stride], sum);
    y[i] = sum;
  }
}

/* Computes n cells, with vectors where all rows contain the cells. With stride 2 a vector loads one
 * element too many, so it must not be the last. */
TARGET_AVX2 static void sums_avx2(int64_t n, int rows, const weighted_row *row, int64_t stride,
                                  float *y) {
  int64_t first = 0, stop = n;
  for (int t = 0; t < rows; t++) {
    if (row[t].first > first) first = row[t].first;
    if (row[t].stop < stop) stop = row[t].stop;
  }
  if (first > stop || stride > 2) first = stop = n;
  sums_of_some(0, first, rows, row, stride, y);
  for (; first + 8 + stride - 1 <= stop; first += 8) {
    __m256 sum = _mm256_setzero_ps();
    for (int t = 0; t < rows; t++) {
      const float *from = row[t].x + (first - row[t].first) * stride;
      sum = _mm256_fmadd_ps(_mm256_set1_ps(row[t].weight),
                            stride == 1 ? _mm256_loadu_ps(from) : even_avx2(from), sum);
    }
    _mm256_storeu_ps(y + first, sum);
  }
  sums_of_some(first, n, rows, row, stride, y);
}

/* Loads a row's elements for 16 cells from `cell` on. *has: mask of the cells that it has. */
TARGET_AVX512 KERNEL_INLINE __m512 cells_avx512(const weighted_row *row, int64_t cell,
                                                int64_t stride, __mmask16 *has) {
  const __m512i each = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
  int64_t from = row->first > cell ? row->first - cell : 0,
          to = row->stop < cell + 16 ? row->stop - cell : 16;
  *has = from < to ? (__mmask16)bits_between(from, to) : 0;
  if (!*has) return _mm512_setzero_ps();
  /* position of cell `cell`, which may be outside the row; lanes outside are masked */
  const float *x =
      (const float *)((uintptr_t)row->x + (uintptr_t)((cell - row->first) * stride) * 4);
  if (stride == 1) return _mm512_maskz_loadu_ps(*has, x);
  if (stride == 2) {
    const uint32_t read = bits_between(2 * from, 2 * to - 1);
    return _mm512_permutex2var_ps(_mm512_maskz_loadu_ps((__mmask16)read, x),
                                  _mm512_slli_epi32(each, 1),
                                  _mm512_maskz_loadu_ps((__mmask16)(read >> 16), x + 16));
  }
  float some[16] = {0};
  for (int64_t i = from; i < to; i++) some[i] = row->x[(cell + i - row->first) * stride];
  return _mm512_loadu_ps(some);
}

TARGET_AVX512 static void vector_sums_avx512(int64_t n, int rows, const weighted_row *row,
                                             int64_t stride, float *y) {
  for (int64_t i = 0; i < n; i += 16) {
    __m512 sum = _mm512_setzero_ps();
    for (int t = 0; t < rows; t++) {
      __mmask16 has;
      const __m512 x = cells_avx512(&row[t], i, stride, &has);
      sum = _mm512_mask3_fmadd_ps(_mm512_set1_ps(row[t].weight), x, sum, has);
    }
    _mm512_mask_storeu_ps(y + i, (__mmask16)bits_between(0, n - i < 16 ? n - i : 16), sum);
  }
}

#endif

float dot_f32(int64_t n, const float *a, const float *b) {
#if KERNEL_X86
  if (cpu_has_avx2()) return dot_avx2(n, a, b);
#endif
  return dot_portable(n, a, b);
}

void axpy_f32(int64_t n, float s, const float *x, float *y) {
#if KERNEL_X86
  if (cpu_has_avx2()) {
    axpy_avx2(n, s, x, y);
    return;
  }
#endif
  axpy_portable(n, s, x, y);
}

/* ---------------------------------------------------------------- softmax */

enum { LANES = 16 }; /* independent sums, so that loops over them become vectors */

/* Returns the larger of a and b; NaN if either is NaN. */
KERNEL_INLINE float larger_or_nan(float a, float b) { return b > a || b != b ? b : a; }

static float vector_largest_portable(int64_t n, const float *x) {
  float largest = -INFINITY;
  for (int64_t i = 0; i < n; i++) largest = larger_or_nan(largest, x[i]);
  return largest;
}

KERNEL_INLINE double exponentials_of(int64_t n, float less, const float *x, float *y) {
  double lane[LANES] = {0};
  int64_t i = 0;
  for (; i + LANES <= n; i += LANES)
    for (int l = 0; l < LANES; l++) {
      y[i + l] = step_exp_f32(x[i + l] - less);
      lane[l] += (double)y[i + l];
    }
  for (; i < n; i++) lane[0] += (double)(y[i] = step_exp_f32(x[i] - less));
  for (int l = 1; l < LANES; l++) lane[0] += lane[l];
  return lane[0];
}

#if KERNEL_X86
/* Tests for NaN separately, because the maximum instruction skips NaN. */
TARGET_AVX2 static float vector_largest_avx2(int64_t n, const float *x) {
  __m256 least = _mm256_set1_ps(-INFINITY), largest[] = {least, least};
  __m256 nan[] = {_mm256_setzero_ps(), _mm256_setzero_ps()};
  float lane[8], found = -INFINITY;
  int64_t i = 0;
  for (; i + 16 <= n; i += 16)
    for (int v = 0; v < 2; v++) {
      __m256 some = _mm256_loadu_ps(x + i + 8 * v);
      largest[v] = _mm256_max_ps(some, largest[v]);
      nan[v] = _mm256_or_ps(nan[v], _mm256_cmp_ps(some, some, _CMP_UNORD_Q));
    }
  if (_mm256_movemask_ps(_mm256_or_ps(nan[0], nan[1]))) return NAN;
  _mm256_storeu_ps(lane, _mm256_max_ps(largest[0], largest[1]));
  for (int l = 0; l < 8; l++) found = larger_or_nan(found, lane[l]);
  for (; i < n; i++) found = larger_or_nan(found, x[i]);
  return found;
}
TARGET_AVX2 static double exponentials_avx2(int64_t n, float less, const float *x, float *y) {
  return exponentials_of(n, less, x, y);
}
TARGET_AVX512 static double exponentials_avx512(int64_t n, float less, const float *x, float *y) {
  return exponentials_of(n, less, x, y);
}
#endif

float largest_f32(int64_t n, const float *x) {
#if KERNEL_X86
  if (cpu_has_avx2()) return vector_largest_avx2(n, x);
#endif
  return vector_largest_portable(n, x);
}

double exponentials_f32(int64_t n, float less, const float *x, float *y) {
#if KERNEL_X86
  if (cpu_has_avx512()) return exponentials_avx512(n, less, x, y);
  if (cpu_has_avx2()) return exponentials_avx2(n, less, x, y);
#endif
  return exponentials_of(n, less, x, y);
}

/* ---------------------------------------------------------------- recurrences */

KERNEL_INLINE float sum_of_lanes(const float *lane) {
  float some[LANES / 2];
  for (int l = 0; l < LANES / 2; l++) some[l] = lane[l] + lane[l + LANES / 2];
  for (int half = LANES / 4; half > 0; half /= 2)
    for (int l = 0; l < half; l++) some[l] += some[l + half];
  return some[0];
}

/* Advances h by one token and returns the sum of h c. decay: (n) if `each`, otherwise (1). */
KERNEL_INLINE float vector_advance(int64_t n, const float *restrict decay, bool each, float x,
                                   const float *restrict b, const float *restrict c,
                                   float *restrict h) {
  float lane[LANES] = {0}, sum = 0;
  int64_t i = 0;
  for (; i + LANES <= n; i += LANES)
    for (int l = 0; l < LANES; l++) {
      h[i + l] = decay[each ? i + l : 0] * h[i + l] + x * b[i + l];
      lane[l] += h[i + l] * c[i + l];
    }
  if (i > 0) sum = sum_of_lanes(lane);
  for (; i < n; i++) {
    h[i] = decay[each ? i : 0] * h[i] + x * b[i];
    sum += h[i] * c[i];
  }
  return sum;
}

KERNEL_INLINE void scan_of(const scanned_row *row, bool each) {
  for (int64_t t = 0; t < row->n_tokens; t++)
    row->out[t * row->out_stride] += vector_advance(
        row->n, row->decay + t * (each ? row->n : 1), each, row->x[t * row->x_stride],
        row->b + t * row->b_stride, row->c + t * row->c_stride, row->h);
}

#if KERNEL_X86
TARGET_AVX2 static void scan_avx2(const scanned_row *row) {
  if (row->each) {
    scan_of(row, true);
  } else {
    scan_of(row, false);
  }
}
#endif

void scan_row_f32(const scanned_row *row) {
#if KERNEL_X86
  if (cpu_has_avx2()) {
    scan_avx2(row);
    return;
  }
#endif
  scan_of(row, row->each);
}

void weighted_sums_f32(int64_t n, int rows, const weighted_row *row, int64_t stride, float *y) {
#if KERNEL_X86
  if (cpu_has_avx512()) {
    vector_sums_avx512(n, rows, row, stride, y);
    return;
  }
  if (cpu_has_avx2()) {
    sums_avx2(n, rows, row, stride, y);
    return;
  }
#endif
  sums_portable(n, rows, row, stride, y);
}
