/* Resizing: out[i, j, k] = sum_r u[i, r] * sum_s v[j, s] * sum_t w[k, t] * x[I[i, r], J[j, s], K[k,
 * t]] per plane.
 *
 *   upsample_taps    writes the tables I and w of all dimensions, one after the other: N_TAPS
 *                    entries per position, index -1 after the last one
 *   upsample_blend   dimensions of N_TAPS taps each (1: copies of any TYPE of the size)
 *   upsample_axis    one dimension of n_taps taps; PRECISE: weights are integers, sums have
 *                    `precision` fractional bits
 *
 * MODE is the schema's UpsampleMode; ALIGN: align_corners. Positions and weights are `real`; cubic
 * weights are rounded to X_TYPE, as in torch. */
#include "common.h"
#ifndef X_TYPE
#define X_TYPE F32
#endif
#ifndef MODE
#define MODE 2
#endif
#ifndef ALIGN
#define ALIGN 0
#endif
#ifndef ANTIALIAS
#define ANTIALIAS 0
#endif
#ifndef PRECISE
#define PRECISE 0
#endif
#ifndef N_TAPS
#define N_TAPS 2
#endif
#ifndef N_DIMS
#define N_DIMS 2
#endif
#ifndef CHUNK
#define CHUNK 1
#endif
#define CUBIC (MODE == 3)

typedef struct axis {
  int in, out, n_taps;
  real scale, support, stretch;
} axis;

static inline real source_position(const axis *a, int at) {
#if ALIGN
  return a->scale * (real)at;
#else
  const real p = a->scale * ((real)at + (real)0.5f) - (real)0.5f;
  return p < 0 && !CUBIC ? 0 : p;
#endif
}

static inline real cubic_inner(real x, real k) { return ((k + 2) * x - (k + 3)) * x * x + 1; }
static inline real cubic_outer(real x, real k) { return ((k * x - 5 * k) * x + 8 * k) * x - 4 * k; }

static inline real filter(real x) {
  const real k = ANTIALIAS ? (real)-0.5f : (real)-0.75f;
  x = fabs(x);
  if (!CUBIC) return x < 1 ? 1 - x : 0;
  return x < 1 ? cubic_inner(x, k) : x < 2 ? cubic_outer(x, k) : 0;
}

static inline int split_position(const axis *a, real p, real *rest) {
  const int i = min((int)floor((float)p), a->in - 1);
  *rest = fmin(fmax(p - (real)i, (real)0), (real)1);
  return i;
}

static inline int clamp_tap(const axis *a, int i) { return clamp(i, 0, a->in - 1); }

#if MODE < 2
static inline void write_taps(const axis *a, int at, __global int *index, __global real *weight) {
#if MODE == 0
  const real p = a->scale * (real)at;
#else
  const real p = source_position(a, at) + (real)0.5f;
#endif
  index[0] = min((int)floor((float)p), a->in - 1);
}
#elif ANTIALIAS
/* Returns (int)(t + 0.5) without rounding the sum; 0 for negative t. */
static inline int round_half_up(real t) {
  if (t <= 0) return 0;
  const int i = (int)t;
  return i + (t - (real)i >= (real)0.5f);
}

static inline void write_taps(const axis *a, int at, __global int *index, __global real *weight) {
  const real center = a->scale * ((real)at + (real)0.5f);
  const int first = round_half_up(center - a->support),
            end = min(round_half_up(center + a->support), a->in);
  const int n = min(end - first, a->n_taps);
  real total = 0;
  for (int k = 0; k < a->n_taps; k++) {
    index[k] = k < n ? first + k : -1;
    weight[k] = k < n ? filter((((real)(first + k) - center) + (real)0.5f) * a->stretch) : 0;
    total += weight[k];
  }
  for (int k = 0; k < n && total != 0; k++) weight[k] /= total;
}
#elif PRECISE
static inline void write_taps(const axis *a, int at, __global int *index, __global real *weight) {
  real t;
  const int i = split_position(a, source_position(a, at), &t), half_taps = a->n_taps / 2;
  const int low = i - half_taps + 1, first = max(low, 0), end = min(i + half_taps + 1, a->in);
  for (int k = 0; k < a->n_taps; k++) {
    index[k] = first + k < end ? first + k : -1;
    weight[k] = 0;
  }
  for (int k = 0; k < a->n_taps; k++)
    weight[clamp_tap(a, low + k) - first] += filter((real)(k + 1 - half_taps) - t);
}
#else
static inline void write_taps(const axis *a, int at, __global int *index, __global real *weight) {
  real t;
  int i = split_position(a, source_position(a, at), &t);
#if CUBIC
  for (int k = 0; k < 4; k++) index[k] = clamp_tap(a, i + k - 1);
  const real u = 1 - t;
  weight[0] = ROUND(X_TYPE, cubic_outer(t + 1, (real)-0.75f));
  weight[1] = ROUND(X_TYPE, cubic_inner(t, (real)-0.75f));
  weight[2] = ROUND(X_TYPE, cubic_inner(u, (real)-0.75f));
  weight[3] = ROUND(X_TYPE, cubic_outer(u + 1, (real)-0.75f));
#else
  const int same = a->in == a->out;
  i = same ? at : i;
  t = same ? 0 : t;
  index[0] = i;
  index[1] = same ? i : clamp_tap(a, i + 1);
  weight[0] = 1 - t;
  weight[1] = t;
#endif
}
#endif

/* The out_d positions of dimension d follow those of the dimensions before it. */
__kernel void upsample_taps(__global int *index, const long index_offset, __global real *weight,
                            const long weight_offset, const int items, const int n_taps,
                            const int in0, const int out0, const real scale0, const int in1,
                            const int out1, const real scale1, const int in2, const int out2,
                            const real scale2, const real support, const real stretch,
                            const int precision) {
  const int item = (int)get_global_id(0);
  if (item >= items) return;
  axis a = {in0, out0, n_taps, scale0, support, stretch};
  int at = item;
  if (at >= out0) {
    at -= out0;
    a.in = in1;
    a.out = out1;
    a.scale = scale1;
    if (at >= out1) {
      at -= out1;
      a.in = in2;
      a.out = out2;
      a.scale = scale2;
    }
  }
  index += index_offset + (long)item * n_taps;
  weight += weight_offset + (long)item * n_taps;
  write_taps(&a, at, index, weight);
#if PRECISE
  for (int k = 0; k < n_taps; k++) {
    const real v = weight[k] * (real)(1 << precision);
    weight[k] = (real)(int)(v < 0 ? v - (real)0.5f : v + (real)0.5f);
  }
#endif
}

/* Initial value of sums: -0, which leaves every number unchanged, including -0. */
#define ZERO ((real)-0.0f)

/* A work-item computes CHUNK neighbours of a row of out. Missing dimensions have in = out = 1. */
__kernel void upsample_blend(const __global STORAGE(X_TYPE) * x, const long x_offset,
                             __global STORAGE(X_TYPE) * out, const long out_offset,
                             const __global int *index, const long index_offset,
                             const __global real *weight, const long weight_offset,
                             const index_t items, const int in0, const int in1, const int in2,
                             const int out0, const int out1, const int out2) {
  const index_t item = (index_t)get_global_id(0);
  if (item >= items) return;
  const int per_row = (out2 + CHUNK - 1) / CHUNK;
  const int from = (int)(item % per_row) * CHUNK, end = min(from + CHUNK, out2);
  const index_t row = item / per_row;
  const int j = (int)(row % out1), i = (int)(row / out1 % out0);
  const index_t plane = row / out1 / out0;
  x += x_offset + plane * in0 * in1 * in2;
  out += out_offset + row * out2;
  const int i_at = N_DIMS > 2 ? i * N_TAPS : 0,
            j_at = N_DIMS > 2 ? (out0 + j) * N_TAPS : j * N_TAPS;
  const int k_at = (N_DIMS > 2 ? out0 + out1 : N_DIMS > 1 ? out1 : 0) * N_TAPS;
  index += index_offset;
  weight += weight_offset;
#if N_TAPS == 1
  x += ((index_t)(N_DIMS > 2 ? index[i_at] : 0) * in1 + (N_DIMS > 1 ? index[j_at] : 0)) * in2;
  for (int k = from; k < end; k++) out[k] = x[index[k_at + k]];
#else
  for (int k = from; k < end; k++) {
    const __global int *ki = index + k_at + k * N_TAPS;
    const __global real *kw = weight + k_at + k * N_TAPS;
    real outer = ZERO;
    for (int r = 0; r < (N_DIMS > 2 ? N_TAPS : 1); r++) {
      const index_t i_in = N_DIMS > 2 ? index[i_at + r] : 0;
      real middle = ZERO;
      for (int s = 0; s < (N_DIMS > 1 ? N_TAPS : 1); s++) {
        const index_t j_in = N_DIMS > 1 ? index[j_at + s] : 0, line = (i_in * in1 + j_in) * in2;
        real inner = ZERO;
        for (int t = 0; t < N_TAPS; t++) inner += LOAD(X_TYPE, x, line + ki[t]) * kw[t];
        middle += N_DIMS > 1 ? inner * weight[j_at + s] : inner;
      }
      outer += N_DIMS > 2 ? middle * weight[i_at + r] : middle;
    }
    STORE(X_TYPE, out, k, outer);
  }
#endif
}

/* x: (outer, in, inner), out: (outer, size, inner). A work-item computes CHUNK neighbours of
 * out. */
__kernel void upsample_axis(const __global STORAGE(X_TYPE) * x, const long x_offset,
                            __global STORAGE(X_TYPE) * out, const long out_offset,
                            const __global int *index, const long index_offset,
                            const __global real *weight, const long weight_offset, const index_t n,
                            const int in, const int size, const index_t inner, const int n_taps,
                            const int precision) {
  const index_t from = (index_t)get_global_id(0) * CHUNK, end = from + CHUNK < n ? from + CHUNK : n;
  for (index_t e = from; e < end; e++) {
    const index_t column = e % inner, at = e / inner % size, outer = e / inner / size;
    const __global STORAGE(X_TYPE) *line = x + x_offset + outer * in * inner + column;
    const __global int *taps = index + index_offset + at * n_taps;
    const __global real *weights = weight + weight_offset + at * n_taps;
#if PRECISE
    int sum = 1 << (precision - 1);
    for (int k = 0; k < n_taps && taps[k] >= 0; k++)
      sum += (int)line[taps[k] * inner] * (int)weights[k];
    out[out_offset + e] = (uchar)clamp(sum >> precision, 0, 255);
#else
    real sum = ZERO;
    for (int k = 0; k < n_taps && taps[k] >= 0; k++)
      sum += LOAD(X_TYPE, line, taps[k] * inner) * weights[k];
    STORE(X_TYPE, out, out_offset + e, sum);
#endif
  }
}
