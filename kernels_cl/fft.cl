/* Discrete Fourier transforms of n points: see backend/cpu/kernels/fft.c for the passes and the
 * chirp. Scratch memory holds rows of `length` points, each a real and an imaginary part, with W
 * rows interleaved: point i of a block of W rows has its real parts at 2 i W and its imaginary
 * parts at (2 i + 1) W.
 *
 *   fft_roots     roots[t] = exp(-2 pi i t / n), conjugated if inverse
 *   fft_chirp     chirp[j] = exp(-pi i j^2 / n), conjugated if inverse; spectrum: (length) its
 *                 conjugate over length, around 0
 *   fft_rows      whole transforms of W rows at a time, in `work`
 *   fft_load      rows of x to points (W is 1 in this and all that follow), times the chirp
 *   fft_pass      one pass of radix RADIX over all rows
 *   fft_multiply  points times the spectrum, conjugated
 *   fft_store     points to rows of out, times the chirp */
#include "common.h"
#ifndef TYPE
#define TYPE F32
#endif
#ifndef KIND
#define KIND 0
#endif
#ifndef INVERSE
#define INVERSE 0 /* direction of the passes; always 0 with a chirp */
#endif
#ifndef CHIRP
#define CHIRP 0
#endif
#ifndef RADIX
#define RADIX 4
#endif
#ifndef ODD
#define ODD 1 /* 1 if fft_rows has odd radices */
#endif
#include "vector.h"

#define FROM_REAL 1
#define TO_REAL 2
#define MAX_RADIX 13

typedef struct points {
  realw re, im;
} points;

#if W == 1
#define GET(p) (*(p))
#define PUT(p, v) *(p) = (v)
#else
#define GET(p) vload16(0, p)
#define PUT(p, v) vstore16(v, 0, p)
#endif

static inline points get(const __global real *p, index_t i) {
  points a;
  a.re = GET(p + 2 * W * i);
  a.im = GET(p + 2 * W * i + W);
  return a;
}
static inline void put(__global real *p, index_t i, points a) {
  PUT(p + 2 * W * i, a.re);
  PUT(p + 2 * W * i + W, a.im);
}
static inline points plus(points a, points b) {
  a.re += b.re;
  a.im += b.im;
  return a;
}
static inline points minus(points a, points b) {
  a.re -= b.re;
  a.im -= b.im;
  return a;
}
static inline points times_i(points a) {
  points b;
  b.re = -a.im;
  b.im = a.re;
  return b;
}
static inline points conjugate(points a) {
  a.im = -a.im;
  return a;
}
/* Returns a times element i of w. */
static inline points times(points a, const __global real *w, index_t i) {
  const real c = w[2 * i], s = w[2 * i + 1];
  points b;
  b.re = a.re * c - a.im * s;
  b.im = a.re * s + a.im * c;
  return b;
}

/* ---------------------------------------------------------------- roots */

typedef struct root {
  real re, im;
} root;

/* Returns the cosine and sine of pi / 4 * rest / n, for rest <= n < 2^35. In floats the angle is a
 * quotient of integers, rounded once, because a float division may be off by 2.5 ulp. */
static inline root small_root(ulong rest, ulong n) {
#if IS_F64(COMPUTE)
  const real angle = (real)rest / (real)n / 4;
#else
  const real angle = (real)((rest << 28) / n) * 0x1p-30f;
#endif
  root w;
  w.re = cospi(angle);
  w.im = sinpi(angle);
  return w;
}

/* Returns exp(-2 pi i k / n), k < n, conjugated if inverse, from an angle of at most pi / 4. */
static inline root root_of_unity(ulong k, ulong n, int inverse) {
  const ulong octant = 8 * k / n, rest = 8 * k % n;
  const root w = small_root(octant % 2 ? n - rest : rest, n);
  const real c = w.re, s = octant % 2 ? -w.im : w.im;
  const int quarter = (int)((octant + 1) / 2 % 4);
  root r;
  r.re = quarter == 0 ? c : quarter == 1 ? -s : quarter == 2 ? -c : s;
  r.im = quarter == 0 ? s : quarter == 1 ? c : quarter == 2 ? -s : -c;
  r.im = inverse ? r.im : -r.im;
  return r;
}

__kernel void fft_roots(__global real *roots, const long roots_offset, const index_t n,
                        const int inverse) {
  const index_t t = (index_t)get_global_id(0);
  if (t >= n) return;
  const root w = root_of_unity((ulong)t, (ulong)n, inverse);
  roots[roots_offset + 2 * t] = w.re;
  roots[roots_offset + 2 * t + 1] = w.im;
}

__kernel void fft_chirp(__global real *chirp, const long chirp_offset, __global real *spectrum,
                        const long spectrum_offset, const index_t n, const index_t length,
                        const int inverse) {
  const index_t i = (index_t)get_global_id(0);
  if (i >= length) return;
  const index_t j = i < n ? i : length - i;
  root w;
  w.re = w.im = 0;
  if (j < n) w = root_of_unity((ulong)j * (ulong)j % (2 * (ulong)n), 2 * (ulong)n, inverse);
  if (i < n) {
    chirp[chirp_offset + 2 * i] = w.re;
    chirp[chirp_offset + 2 * i + 1] = w.im;
  }
  spectrum[spectrum_offset + 2 * i] = w.re / (real)length;
  spectrum[spectrum_offset + 2 * i + 1] = -w.im / (real)length;
}

/* ---------------------------------------------------------------- passes */

static inline void radix_four(points *a) {
  const points b = plus(a[0], a[2]), c = minus(a[0], a[2]), d = plus(a[1], a[3]);
  const points e = times_i(INVERSE ? minus(a[1], a[3]) : minus(a[3], a[1]));
  a[0] = plus(b, d);
  a[1] = plus(c, e);
  a[2] = minus(b, d);
  a[3] = minus(c, e);
}

/* Transforms r points in place, for an odd radix r: roots[j * step] is the j-th root of order r.
 * The roots of j and r - j are conjugates. */
static inline void radix_odd(const int r, const __global real *roots, const index_t step,
                             points *a) {
  points sum[MAX_RADIX / 2 + 1], rest[MAX_RADIX / 2 + 1];
  const points first = a[0];
  for (int k = 1; k <= r / 2; k++) {
    sum[k] = plus(a[k], a[r - k]);
    rest[k] = minus(a[k], a[r - k]);
    a[0] = plus(a[0], sum[k]);
  }
  for (int j = 1; j <= r / 2; j++) {
    points even = first, odd;
    odd.re = odd.im = (realw)0;
    for (int k = 1; k <= r / 2; k++) {
      const index_t t = 2 * (j * k % r) * step;
      even.re += sum[k].re * roots[t];
      even.im += sum[k].im * roots[t];
      odd.re -= rest[k].im * roots[t + 1];
      odd.im += rest[k].re * roots[t + 1];
    }
    a[j] = plus(even, odd);
    a[r - j] = minus(even, odd);
  }
}

/* Computes butterfly p for the sub-transforms q in [first, end). */
static inline void butterflies(const int r, const __global real *from, __global real *to,
                               const __global real *roots, const index_t length,
                               const index_t stride, const index_t p, const index_t first,
                               const index_t end) {
  const index_t step = length / r;
  for (index_t q = first; q < end; q++) {
    points a[MAX_RADIX];
    for (int k = 0; k < r; k++) a[k] = get(from, p * stride + q + k * step);
    if (r == 4) {
      radix_four(a);
    } else if (r == 2) {
      const points b = a[1];
      a[1] = minus(a[0], b);
      a[0] = plus(a[0], b);
    } else {
      radix_odd(r, roots, step, a);
    }
    put(to, q + stride * r * p, a[0]);
    for (int j = 1; j < r; j++)
      put(to, q + stride * (r * p + j), p > 0 ? times(a[j], roots, p * j * stride) : a[j]);
  }
}

__kernel void fft_pass(const __global real *from, const long from_offset, __global real *to,
                       const long to_offset, const __global real *roots, const long roots_offset,
                       const index_t items, const index_t length, const index_t stride) {
  const index_t item = (index_t)get_global_id(0), per_row = length / RADIX;
  if (item >= items) return;
  const index_t row = item / per_row, at = item % per_row, q = at % stride;
  butterflies(RADIX, from + from_offset + 2 * row * length, to + to_offset + 2 * row * length,
              roots + roots_offset, length, stride, at / stride, q, q + 1);
}

/* ---------------------------------------------------------------- rows */

/* True if point k of a real signal's transform has no imaginary part. */
#define IS_REAL_POINT(k) ((k) == 0 || 2 * (k) == n)

/* Offsets of W rows in a tensor; only the first `some` exist. */
typedef struct places {
  index_t at[W];
  int some;
} places;

static inline places places_of(index_t row, index_t n_rows, index8 dims, index8 strides) {
  places p;
  p.some = n_rows - row < W ? (int)(n_rows - row) : W;
  for (int l = 0; l < p.some; l++) p.at[l] = strided_offset(row + l, dims, strides);
  return p;
}

/* Loads point j < n of the rows. They have n_in elements, `step` apart; the imaginary part is
 * `pair` after the real one. */
static inline points load(const __global real *x, const places *p, index_t j, index_t n,
                          index_t n_in, index_t step, index_t pair) {
  const int mirrored = j >= n_in, real_point = KIND == TO_REAL && IS_REAL_POINT(j);
  const index_t at = (mirrored ? n - j : j) * step;
  real re[W], im[W];
  for (int l = 0; l < W; l++) {
    const int there = l < p->some;
    re[l] = there ? x[p->at[l] + at] : (real)0;
    im[l] = KIND != FROM_REAL && there && !real_point ? x[p->at[l] + at + pair] : (real)0;
  }
  points a;
  a.re = GET(re);
  a.im = mirrored ? -GET(im) : GET(im);
  return a;
}

static inline void store(__global real *out, const places *p, index_t k, index_t n, index_t step,
                         index_t pair, points a, real scale) {
  real re[W], im[W];
  PUT(re, a.re * scale);
  PUT(im, KIND == FROM_REAL && IS_REAL_POINT(k) ? (realw)0 : a.im * scale);
  for (int l = 0; l < p->some; l++) {
    out[p->at[l] + k * step] = re[l];
    if (KIND != TO_REAL) out[p->at[l] + k * step + pair] = im[l];
  }
}

#define FFT_IN_PARAMS                                                                      \
  const __global real *x, const long x_offset, const __global real *chirp,                 \
      const long chirp_offset, const index8 row_dims, const index8 x_strides,              \
      const index_t x_stride, const index_t x_pair, const index_t n_rows, const index_t n, \
      const index_t n_in, const index_t length
#define FFT_OUT_PARAMS                                                                           \
  __global real *out, const long out_offset, const index8 out_strides, const index_t out_stride, \
      const index_t out_pair, const index_t n_out, const real scale

__kernel void fft_load(FFT_IN_PARAMS, __global real *to, const long to_offset,
                       const index_t first_row, const index_t items) {
  const index_t item = (index_t)get_global_id(0);
  if (item >= items) return;
  const index_t row = item / length, j = item % length;
  const places p = places_of(first_row + row, n_rows, row_dims, x_strides);
  points a;
  a.re = a.im = (realw)0;
  if (j < n) {
    a = load(x + x_offset, &p, j, n, n_in, x_stride, x_pair);
    if (CHIRP) a = times(a, chirp + chirp_offset, j);
  }
  put(to + to_offset, item, a);
}

__kernel void fft_multiply(__global real *data, const long data_offset,
                           const __global real *spectrum, const long spectrum_offset,
                           const index_t length, const index_t items) {
  const index_t item = (index_t)get_global_id(0);
  if (item >= items) return;
  const points a = get(data + data_offset, item);
  put(data + data_offset, item, conjugate(times(a, spectrum + spectrum_offset, item % length)));
}

__kernel void fft_store(const __global real *from, const long from_offset,
                        const __global real *chirp, const long chirp_offset, FFT_OUT_PARAMS,
                        const index8 row_dims, const index_t n_rows, const index_t n,
                        const index_t length, const index_t first_row, const index_t items) {
  const index_t item = (index_t)get_global_id(0);
  if (item >= items) return;
  const index_t row = item / n_out, k = item % n_out;
  const places p = places_of(first_row + row, n_rows, row_dims, out_strides);
  points a = get(from + from_offset, row * length + k);
  if (CHIRP) a = times(conjugate(a), chirp + chirp_offset, k);
  store(out + out_offset, &p, k, n, out_stride, out_pair, a, scale);
}

/* ---------------------------------------------------------------- passes over whole rows */

/* The points of the rows, and a second buffer to which the next pass writes. */
typedef struct buffers {
  __global real *data, *beside;
} buffers;

/* Runs `count` passes of radix r over W rows and returns the stride after them. */
static inline index_t run_passes(const int r, int count, buffers *b, const __global real *roots,
                                 index_t length, index_t stride) {
  for (int i = 0; i < count; i++) {
    const index_t m = length / (stride * r);
    for (index_t p = 0; p < m; p++)
      butterflies(r, b->data, b->beside, roots, length, stride, p, 0, stride);
    __global real *swap = b->data;
    b->data = b->beside;
    b->beside = swap;
    stride *= r;
  }
  return stride;
}

#define RADIX_PARAMS                                                                    \
  const int fours, const int twos, const int threes, const int fives, const int sevens, \
      const int elevens, const int thirteens

static inline void transform(RADIX_PARAMS, buffers *b, const __global real *roots, index_t length) {
  index_t stride = run_passes(4, fours, b, roots, length, 1);
  stride = run_passes(2, twos, b, roots, length, stride);
#if ODD
  stride = run_passes(3, threes, b, roots, length, stride);
  stride = run_passes(5, fives, b, roots, length, stride);
  stride = run_passes(7, sevens, b, roots, length, stride);
  stride = run_passes(11, elevens, b, roots, length, stride);
  run_passes(13, thirteens, b, roots, length, stride);
#endif
}

/* work: (items, 2, 2 W length). A work-item transforms every items-th block of W rows. */
__kernel void fft_rows(FFT_IN_PARAMS, FFT_OUT_PARAMS, RADIX_PARAMS, const __global real *roots,
                       const long roots_offset, const __global real *spectrum,
                       const long spectrum_offset, __global real *work, const long work_offset,
                       const index_t items) {
  const index_t item = (index_t)get_global_id(0);
  if (item >= items) return;
  buffers b;
  b.data = work + work_offset + (long)item * 4 * W * length;
  b.beside = b.data + 2 * W * length;
  x += x_offset;
  out += out_offset;
  chirp += chirp_offset;
  roots += roots_offset;
  spectrum += spectrum_offset;
  for (index_t row = item * W; row < n_rows; row += items * W) {
    const places from = places_of(row, n_rows, row_dims, x_strides);
    for (index_t j = 0; j < n; j++) {
      const points a = load(x, &from, j, n, n_in, x_stride, x_pair);
      put(b.data, j, CHIRP ? times(a, chirp, j) : a);
    }
    points zero;
    zero.re = zero.im = (realw)0;
    for (index_t j = n; j < length; j++) put(b.data, j, zero);
    transform(fours, twos, threes, fives, sevens, elevens, thirteens, &b, roots, length);
#if CHIRP
    for (index_t i = 0; i < length; i++)
      put(b.data, i, conjugate(times(get(b.data, i), spectrum, i)));
    transform(fours, twos, threes, fives, sevens, elevens, thirteens, &b, roots, length);
#endif
    const places to = places_of(row, n_rows, row_dims, out_strides);
    for (index_t k = 0; k < n_out; k++) {
      const points a = get(b.data, k);
      store(out, &to, k, n, out_stride, out_pair, CHIRP ? times(conjugate(a), chirp, k) : a, scale);
    }
  }
}
