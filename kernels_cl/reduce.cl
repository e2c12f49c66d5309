/* out[k] = finish(fold over r of map(x[k, r])). k counts the kept dimensions, r the reduced ones,
 * both row-major. r is (outer, inner); inner is the last of the collapsed reduced dimensions.
 *
 * ROW: inner has stride 1, and a work-item (or a TEAM of them) folds W neighbours of r at once.
 * Else a work-item folds STRIP times W neighbours of k, block by block. A unit is a block of at
 * most BLOCK * W * TEAM (ROW) or BLOCK elements of inner. Float sums and moments of units are
 * merged with compensation, so that no chain of additions is long. Dimension 1 of the grid divides
 * the units among n_splits work-items, which leave partial states (component, split, k) for
 * reduce_merge. var, std: per unit the mean, then the squared deviations from it, merged after Chan
 * et al. */
#include "common.h"
#ifndef X_TYPE
#define X_TYPE F32
#endif
#ifndef OUT_TYPE
#define OUT_TYPE F32
#endif
#ifndef KIND
#define KIND 0
#endif
#ifndef ROW
#define ROW 1
#endif
#ifndef SPLIT
#define SPLIT 0
#endif
#ifndef STRIP
#define STRIP 1
#endif
#include "vector.h"
DEFINE_SOME(X_TYPE)
#if !SPLIT && !ROW
DEFINE_KEEP(OUT_TYPE)
#endif

#define SUM 0
#define MEAN 1
#define PROD 2
#define MAX 3
#define MIN 4
#define ANY 5
#define ALL 6
#define VAR 7
#define STD 8
#define NORM1 9
#define NORM2 10
#define ARGMAX 11
#define ARGMIN 12
#define IS_MOMENT (KIND == VAR || KIND == STD)
#define IS_ARG (KIND == ARGMAX || KIND == ARGMIN)
#define IS_SUM (KIND == SUM || KIND == MEAN || KIND == NORM1 || KIND == NORM2)

#if IS_FLOAT(COMPUTE)
#define LOWEST ((real)(-INFINITY))
#define HIGHEST ((real)INFINITY)
#else
#define LOWEST LONG_MIN
#define HIGHEST LONG_MAX
#endif

#if KIND == PROD
#define IDENTITY ((real)1)
#define COMBINE(a, b) ((a) * (b))
#elif KIND == MAX || KIND == ARGMAX
#define IDENTITY LOWEST
#define COMBINE(a, b) larger(a, b)
#elif KIND == MIN || KIND == ARGMIN
#define IDENTITY HIGHEST
#define COMBINE(a, b) smaller(a, b)
#elif KIND == ANY
#define IDENTITY ((real)0)
#define COMBINE(a, b) larger(a, b)
#elif KIND == ALL
#define IDENTITY ((real)1)
#define COMBINE(a, b) smaller(a, b)
#else
#define IDENTITY ((real)0)
#define COMBINE(a, b) ((a) + (b))
#endif

#if KIND == ANY || KIND == ALL
#define MAP(V, v) ((v) != (V)0 ? (V)1 : (V)0)
#elif KIND == NORM1
#define MAP(V, v) fabs(v)
#elif KIND == NORM2
#define MAP(V, v) ((v) * (v))
#else
#define MAP(V, v) (v)
#endif

#if ROW
typedef real total_t;
#else
typedef realw total_t;
#endif
/* Members by kind. Sums: a - b is the sum, where b is the rounding error. Moments: a mean, b sum of
 * squared deviations, n count. Arg: i position. */
typedef struct state {
  total_t a, b;
  real n;
  long i;
} state;

#if IS_ARG
#if IS_FLOAT(COMPUTE)
#define IS_NAN(v) isnan(v)
#else
#define IS_NAN(v) 0
#endif
#if KIND == ARGMAX
#define BEATS(v, than) ((v) > (than))
#else
#define BEATS(v, than) ((v) < (than))
#endif
static inline int is_better(real v, long i, real than, long j) {
  if (j < 0 || i < 0) return j < 0;
  const int v_nan = IS_NAN(v), than_nan = IS_NAN(than);
  if (v_nan | than_nan) return v_nan & (!than_nan | (i < j));
  return BEATS(v, than) || (v == than && i < j);
}
#endif

static inline state state_start(void) {
  state s;
  s.a = (total_t)IDENTITY;
  s.b = (total_t)0;
  s.n = 0;
  s.i = -1;
  return s;
}

static inline void state_merge(state *s, const state *o) {
#if IS_SUM && IS_FLOAT(COMPUTE)
  const total_t y = o->a - (s->b + o->b);
  const total_t t = s->a + y;
  const total_t lost = (t - s->a) - y;
  s->b = (lost - lost) == 0 ? lost : (total_t)0; /* no compensation after an infinity */
  s->a = t;
#elif IS_MOMENT
  const real n = s->n + o->n;
  if (n == 0) return;
  const total_t d = o->a - s->a;
  s->a += d * (o->n / n);
  s->b += o->b + d * d * (s->n * (o->n / n));
  s->n = n;
#elif IS_ARG
  if (is_better(o->a, o->i, s->a, s->i)) {
    s->a = o->a;
    s->i = o->i;
  }
#else
  s->a = COMBINE(s->a, o->a);
#endif
}

static inline total_t state_finish(const state *s, real divisor) {
#if KIND == MEAN
  return (s->a - s->b) / divisor;
#elif KIND == NORM2
  return sqrt(s->a - s->b);
#elif IS_SUM
  return s->a - s->b;
#elif KIND == VAR
  return s->b / divisor;
#elif KIND == STD
  return sqrt(s->b / divisor);
#else
  return s->a;
#endif
}

/* Pass 0 folds map(x); pass 1, of moments, folds the squares of x - mean. *count: receives the
 * number of elements of this lane. */
#if KIND == VAR || KIND == STD
#define TAKE(V, v) (pass ? ((v)-mean) * ((v)-mean) : (v))
#else
#define TAKE(V, v) MAP(V, v)
#endif
#if ROW
static inline real fold_unit(const __global STORAGE(X_TYPE) * p, index_t n, index_t stride,
                             int some, int pass, real mean, index_t *count) {
  realw v0 = (realw)IDENTITY, v1 = (realw)IDENTITY;
  index_t i = LANE * W, seen = 0;
  for (; i + (TEAM + 1) * W <= n; i += 2 * TEAM * W, seen += 2 * W) {
    const realw x0 = LOADW(X_TYPE, p + i), x1 = LOADW(X_TYPE, p + i + TEAM * W);
    v0 = COMBINE(v0, TAKE(realw, x0));
    v1 = COMBINE(v1, TAKE(realw, x1));
  }
  for (; i + W <= n; i += TEAM * W, seen += W) {
    const realw x0 = LOADW(X_TYPE, p + i);
    v0 = COMBINE(v0, TAKE(realw, x0));
  }
  v0 = COMBINE(v0, v1);
#if W == 1
  real total = v0;
#elif IS_SUM || IS_MOMENT
  real total = fold_add(v0);
#else
  real lanes[W];
  vstore16(v0, 0, lanes);
  real total = lanes[0];
  for (int l = 1; l < W; l++) total = COMBINE(total, lanes[l]);
#endif
  for (i = n / W * W + LANE; i < n; i += TEAM, seen++) {
    const real x0 = LOAD(X_TYPE, p, i);
    total = COMBINE(total, TAKE(real, x0));
  }
  *count = seen;
  return total;
}
#else
static inline realw fold_unit(const __global STORAGE(X_TYPE) * p, index_t n, index_t stride,
                              int some, int pass, realw mean, index_t *count) {
  realw v = (realw)IDENTITY;
  if (some >= W)
    for (index_t i = 0; i < n; i++) {
      const realw x0 = LOADW(X_TYPE, p + i * stride);
      v = COMBINE(v, TAKE(realw, x0));
    }
  else
    for (index_t i = 0; i < n; i++) {
      const realw x0 = LOAD_SOME(X_TYPE, p + i * stride, some);
      v = COMBINE(v, TAKE(realw, x0));
    }
  *count = n;
  return v;
}
#endif

/* Returns the state of the n elements at p, `stride` apart. r is the position of the first among
 * the reduced elements. */
static inline state reduce_unit(const __global STORAGE(X_TYPE) * p, index_t n, index_t stride,
                                int some, long r) {
  state u = state_start();
  index_t count;
  u.a = fold_unit(p, n, stride, some, 0, (total_t)0, &count);
#if IS_MOMENT
  u.n = (real)count;
  if (count == 0) return u;
  u.a = u.a / u.n;
  u.b = fold_unit(p, n, stride, some, 1, u.a, &count);
#elif IS_ARG
  for (index_t i = LANE; i < n; i += TEAM) {
    const real v = LOAD(X_TYPE, p, i * stride);
    if ((v == u.a) | (IS_NAN(v) & IS_NAN(u.a))) {
      u.i = r + i;
      break;
    }
  }
#endif
  return u;
}

#if TEAM > 1
/* Merges the states of a team into that of its first work-item. */
static inline void merge_team(state *s, __local real *a, __local real *b, __local real *n,
                              __local long *at) {
  for (int half_team = TEAM / 2; half_team > 0; half_team /= 2) {
    barrier(CLK_LOCAL_MEM_FENCE);
    if (LANE >= half_team && LANE < 2 * half_team) {
      a[LANE] = s->a;
      b[LANE] = s->b;
      n[LANE] = s->n;
      at[LANE] = s->i;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    if (LANE < half_team) {
      state o;
      o.a = a[LANE + half_team];
      o.b = b[LANE + half_team];
      o.n = n[LANE + half_team];
      o.i = at[LANE + half_team];
      state_merge(s, &o);
    }
  }
}
#endif

static inline void store_result(__global STORAGE(OUT_TYPE) * out, const state *s, int some,
                                real divisor) {
#if IS_ARG
  STORE(OUT_TYPE, out, 0, s->i < 0 ? 0 : s->i);
#elif ROW
  const real v = state_finish(s, divisor);
  STORE(OUT_TYPE, out, 0, v);
#elif !SPLIT
  const realw v = state_finish(s, divisor);
  STORE_SOME(OUT_TYPE, out, some, v);
#endif
}

static inline void store_lanes(__global real *p, int some, const total_t v) {
#if ROW || W == 1
  *p = v;
#else
  real lanes[W];
  vstore16(v, 0, lanes);
  for (int l = 0; l < W && l < some; l++) p[l] = lanes[l];
#endif
}

/* Stores a partial state, whose components are `step` apart. */
static inline void store_split(__global real *splits, long step, __global long *places,
                               const state *s, int some) {
#if IS_SUM && IS_FLOAT(COMPUTE)
  store_lanes(splits, some, s->a - s->b);
#else
  store_lanes(splits, some, s->a);
#endif
#if IS_MOMENT
  store_lanes(splits + step, some, s->b);
  store_lanes(splits + 2 * step, some, (total_t)s->n);
#endif
#if IS_ARG
  *places = s->i;
#endif
}

/* Number of the W columns of vector v of a strip that exist; may exceed W. */
#define SOME(v) (left - (v)*W)

/* splits: (1 or 3, n_splits, n_kept); places (arg only): (n_splits, n_kept). groups: work-items (or
 * teams) in dimension 0. Unless ROW, each computes STRIP * W of the row_size elements of the
 * innermost kept dimension. */
__kernel void reduce(const __global STORAGE(X_TYPE) * x, const long x_offset,
                     __global STORAGE(OUT_TYPE) * out, const long out_offset, __global real *splits,
                     const long splits_offset, __global long *places, const long places_offset,
                     const index8 kept_dims, const index8 kept_strides, const index8 outer_dims,
                     const index8 outer_strides, const index_t n_kept, const index_t groups,
                     const index_t row_size, const index_t n_outer, const index_t n_inner,
                     const index_t inner_stride, const int n_splits, const real divisor) {
#if TEAM > 1
  __local real team_a[TEAM], team_b[TEAM], team_n[TEAM];
  __local long team_i[TEAM];
#endif
  const index_t item = (index_t)TEAM_INDEX;
  const int split = (int)get_global_id(1);
  if (TEAM == 1 && (item >= groups || split >= n_splits)) return;
#if ROW
  const index_t k = item;
  const int left = 1;
  const index_t unit_size = BLOCK * W * TEAM;
#else
  const index_t per_row = (row_size + STRIP * W - 1) / (STRIP * W);
  const index_t column = item % per_row * (STRIP * W), k = item / per_row * row_size + column;
  const int left = (int)min(row_size - column, (index_t)(STRIP * W));
  const index_t unit_size = BLOCK;
#endif
  const __global STORAGE(X_TYPE) *row = x + x_offset + strided_offset(k, kept_dims, kept_strides);
  const index_t per_inner = (n_inner + unit_size - 1) / unit_size, n_units = per_inner * n_outer;
  const index_t share = (n_units + n_splits - 1) / n_splits;
  const index_t end = (split + 1) * share < n_units ? (split + 1) * share : n_units;
  state strip[STRIP];
  for (int v = 0; v < STRIP; v++) strip[v] = state_start();
  for (index_t u = split * share; u < end; u++) {
    const index_t o = u / per_inner, from = u % per_inner * unit_size;
    const index_t n = n_inner - from < unit_size ? n_inner - from : unit_size;
    const __global STORAGE(X_TYPE) *p =
        row + strided_offset(o, outer_dims, outer_strides) + from * inner_stride;
    for (int v = 0; v < STRIP && SOME(v) > 0; v++) {
      const state unit = reduce_unit(p + v * W, n, inner_stride, SOME(v), (long)o * n_inner + from);
      state_merge(&strip[v], &unit);
    }
  }
#if TEAM > 1
  merge_team(strip, team_a, team_b, team_n, team_i);
  if (LANE != 0) return;
#endif
  for (int v = 0; v < STRIP && SOME(v) > 0; v++) {
#if SPLIT
    const long at = (long)split * n_kept + k + v * W;
    store_split(splits + splits_offset + at, (long)n_splits * n_kept, places + places_offset + at,
                &strip[v], SOME(v));
#else
    store_result(out + out_offset + k + v * W, &strip[v], SOME(v), divisor);
#endif
  }
}

/* Merges the partial states of each k. Compiled with W = 1, ROW = 1. */
__kernel void reduce_merge(const __global real *splits, const long splits_offset,
                           const __global long *places, const long places_offset,
                           __global STORAGE(OUT_TYPE) * out, const long out_offset,
                           const index_t n_kept, const int n_splits, const real divisor) {
#if ROW && TEAM == 1
  const index_t k = (index_t)get_global_id(0);
  if (k >= n_kept) return;
  const long split_size = (long)n_splits * n_kept;
  state s = state_start();
  for (int split = 0; split < n_splits; split++) {
    const long at = (long)split * n_kept + k;
    state o = state_start();
    o.a = splits[splits_offset + at];
#if IS_MOMENT
    o.b = splits[splits_offset + at + split_size];
    o.n = splits[splits_offset + at + 2 * split_size];
#elif IS_ARG
    o.i = places[places_offset + at];
#endif
    state_merge(&s, &o);
  }
  store_result(out + out_offset + k, &s, 1, divisor);
#endif
}
