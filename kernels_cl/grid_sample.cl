/* out[n, c, p] = sum_k w[k] * x[n, c, o[k]]. Offsets o and weights w follow from point p of the
 * grid: grid[n, p] has N_DIMS coordinates in [-1, 1], the coordinate of the last dimension first. A
 * work-item computes all channels of a point.
 *
 * MODE: 0 linear, 1 nearest, 2 cubic. PADDING: x continues outside as 0 (0), its border (1) or its
 * reflection (2). ALIGN: -1 and 1 are the centers of the outer elements, else their edges. */
#include "common.h"
#ifndef TYPE
#define TYPE F32
#endif
#ifndef MODE
#define MODE 0
#endif
#ifndef PADDING
#define PADDING 0
#endif
#ifndef ALIGN
#define ALIGN 0
#endif
#ifndef N_DIMS
#define N_DIMS 2
#endif
#if MODE == 0
#define N_TAPS (1 << N_DIMS)
#elif MODE == 1
#define N_TAPS 1
#else
#define N_TAPS 16
#endif

typedef struct tap_list {
  int n;
  index_t offset[N_TAPS]; /* -1: outside of x */
  real weight[N_TAPS];
} tap_list;

/* NaN selects the first element of a plane and the last one of a volume, as in torch. */
static inline real clip(real v, int size) {
  const real last = (real)(size - 1);
  if (v != v) return N_DIMS == 2 ? 0 : last;
  return v < 0 ? 0 : v > last ? last : v;
}

static inline real pad_position(real v, int size) {
#if PADDING == 0
  return v;
#elif PADDING == 1
  return clip(v, size);
#else
  const real low = ALIGN ? 0 : (real)-0.5f, period = (real)(2 * (ALIGN ? size - 1 : size));
  if (period == 0) return 0;
  const real rest = fmod(fabs(v - low), period);
  const real back = period - rest;
  return clip((rest < back ? rest : back) + low, size);
#endif
}

static inline real unnormalize(real v, int size) {
#if ALIGN
  return (v + 1) * ((real)0.5f * (real)(size - 1));
#else
  return (v + 1) * ((real)0.5f * (real)size) - (real)0.5f;
#endif
}

/* Appends the tap at the whole-numbered position `at`. A tap outside of x has weight 0 in a volume;
 * in a plane it keeps its weight, which may be NaN, and multiplies 0. */
static inline void add_tap(tap_list *taps, const int *in, const real *at, real weight) {
  int inside = 1;
  index_t offset = 0;
  for (int d = N_DIMS - 1; d >= 0; d--) {
    inside = inside && at[d] >= 0 && at[d] <= (real)(in[d] - 1);
    offset = offset * in[d] + (inside ? (index_t)at[d] : 0);
  }
  taps->offset[taps->n] = inside ? offset : -1;
  taps->weight[taps->n++] = inside || N_DIMS == 2 ? weight : 0;
}

static inline void linear_taps(tap_list *taps, const int *in, const real *position) {
  for (int corner = 0; corner < 1 << N_DIMS; corner++) {
    real at[N_DIMS], weight = 1;
    for (int d = 0; d < N_DIMS; d++) {
      const real low = floor(position[d]), rest = position[d] - low;
      const int upper = corner >> d & 1;
      at[d] = upper ? low + 1 : low;
      weight *= upper ? rest : 1 - rest;
    }
    add_tap(taps, in, at, weight);
  }
}

#define K ((real)-0.75f)
static inline real cubic_inner(real x) { return ((K + 2) * x - (K + 3)) * x * x + 1; }
static inline real cubic_outer(real x) { return ((K * x - 5 * K) * x + 8 * K) * x - 4 * K; }

static inline void cubic_weights(real t, real *w) {
  w[0] = cubic_outer(t + 1);
  w[1] = cubic_inner(t);
  w[2] = cubic_inner(1 - t);
  w[3] = cubic_outer((1 - t) + 1);
}

#if MODE == 2
static inline void cubic_taps(tap_list *taps, const int *in, const real *position) {
  real wx[4], wy[4];
  const real x = floor(position[0]), y = floor(position[1]);
  cubic_weights(position[0] - x, wx);
  cubic_weights(position[1] - y, wy);
  for (int i = 0; i < 4; i++) {
    real at[2];
    at[1] = trunc(pad_position(y + (real)(i - 1), in[1]));
    for (int j = 0; j < 4; j++) {
      at[0] = trunc(pad_position(x + (real)(j - 1), in[0]));
      add_tap(taps, in, at, wx[j] * wy[i]);
    }
  }
}
#endif

/* Finds the elements of x that a point reads, and their weights. */
static inline void find_taps(tap_list *taps, const int *in, const real *point) {
  real position[N_DIMS];
  taps->n = 0;
  for (int d = 0; d < N_DIMS; d++) {
    position[d] = unnormalize(point[d], in[d]);
#if MODE != 2
    position[d] = pad_position(position[d], in[d]);
#endif
#if MODE == 1
    position[d] = rint(position[d]);
#endif
  }
#if MODE == 0
  linear_taps(taps, in, position);
#elif MODE == 1
  add_tap(taps, in, position, 1);
#else
  cubic_taps(taps, in, position);
#endif
}

/* in0 is the size of the last dimension. */
__kernel void grid_sample(const __global STORAGE(TYPE) * x, const long x_offset,
                          const __global STORAGE(TYPE) * grid, const long grid_offset,
                          __global STORAGE(TYPE) * out, const long out_offset, const index_t items,
                          const index_t points, const index_t channels, const int in0,
                          const int in1, const int in2) {
  const index_t item = (index_t)get_global_id(0);
  if (item >= items) return;
  const index_t n = item / points, size = (index_t)in0 * in1 * in2;
  const int in[3] = {in0, in1, in2};
  real point[N_DIMS];
  for (int d = 0; d < N_DIMS; d++) point[d] = LOAD(TYPE, grid, grid_offset + item * N_DIMS + d);
  tap_list taps;
  find_taps(&taps, in, point);
  x += x_offset + n * channels * size;
  out += out_offset + n * channels * points + item % points;
  for (index_t c = 0; c < channels; c++) {
    real sum = 0;
    for (int k = 0; k < N_TAPS; k++) {
      const index_t at = taps.offset[k];
      sum += (at < 0 ? 0 : LOAD(TYPE, x, c * size + at)) * taps.weight[k];
    }
    STORE(TYPE, out, c * points, sum);
  }
}
