/* out[k, i] = the fold of x[k, 0 .. i]: sum, product, maximum, minimum, or the logarithm of the sum
 * of exponentials. k counts the kept dimensions, i is the axis. indices[k, i] is the position of
 * the extreme so far, the last of equal ones.
 *
 * A work-item processes W neighbours of k and walks its share of i. With few work-items the axis is
 * divided among n_splits: cumulate_splits stores the fold of each split, and cumulate starts from
 * the folds of the splits before its own. Float sums are taken over BLOCK elements of i and added
 * to the sum of the blocks before, with compensation: the sum is a - b, b the rounding error.
 * Extremes and logsumexp have W = 1; logsumexp is a + log(b), where a is the greatest x. */
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
#ifndef INDICES
#define INDICES 0
#endif
#include "vector.h"
DEFINE_SOME(X_TYPE)
DEFINE_KEEP(OUT_TYPE)

#define SUM 0
#define PROD 1
#define MAX 2
#define MIN 3
#define LOGSUMEXP 4
#define IS_EXTREME (KIND == MAX || KIND == MIN)
#define IS_FLOAT_SUM (KIND == SUM && IS_FLOAT(COMPUTE))

typedef struct fold {
  realw a, b;
  long at; /* position of the extreme; -1: no element yet */
} fold;

static inline fold fold_start(void) {
  fold f;
#if KIND == PROD
  f.a = (realw)1;
#elif KIND == LOGSUMEXP
  f.a = -INFINITY;
#else
  f.a = (realw)0;
#endif
  f.b = (realw)0;
  f.at = -1;
  return f;
}

/* Appends g, the fold of the elements that follow those of f, to f. */
static inline void fold_append(fold *f, const fold *g) {
#if IS_FLOAT_SUM
  const realw y = g->a - (f->b + g->b), t = f->a + y, lost = (t - f->a) - y;
  f->b = (lost - lost) == 0 ? lost : (realw)0; /* no compensation after an infinity */
  f->a = t;
#elif KIND == SUM
  f->a += g->a;
#elif KIND == PROD
  f->a *= g->a;
#elif KIND == LOGSUMEXP
  const real top = larger(f->a, g->a);
  const real less = exp(-fabs(f->a - g->a));
  f->b = !isfinite(top) ? (real)0 : g->a > f->a ? f->b * less + g->b : f->b + g->b * less;
  f->a = top;
#else
#if KIND == MAX
  const int beats = g->a >= f->a;
#else
  const int beats = g->a <= f->a;
#endif
  if (g->at >= 0 && (f->at < 0 || g->a != g->a || (f->a == f->a && beats))) {
    f->a = g->a;
    f->at = g->at;
  }
#endif
}

static inline realw fold_value(const fold *f) {
#if KIND == LOGSUMEXP
  return isfinite(f->a) ? f->a + log(f->b) : f->a;
#else
  return f->a;
#endif
}

/* Returns the fold of element i alone. */
static inline fold fold_of(realw v, long i) {
  fold g;
  g.a = v;
  g.b = (realw)(KIND == LOGSUMEXP);
  g.at = i;
  return g;
}

/* Appends elements [from, end) to f. out and indices, unless NULL, receive the fold after each. */
static inline void walk(fold *f, const __global STORAGE(X_TYPE) * x,
                        __global STORAGE(OUT_TYPE) * out, __global long *indices, index_t from,
                        index_t end, index_t x_stride, index_t out_stride, int some) {
#if IS_FLOAT_SUM
  for (index_t first = from; first < end; first += BLOCK) {
    const index_t last = end - first < BLOCK ? end : first + BLOCK;
    const realw before = f->a - f->b;
    fold block = fold_start();
    for (index_t i = first; i < last; i++) {
      block.a += LOAD_SOME(X_TYPE, x + i * x_stride, some);
      if (out) STORE_SOME(OUT_TYPE, out + i * out_stride, some, before + block.a);
    }
    fold_append(f, &block);
  }
#else
  for (index_t i = from; i < end; i++) {
    const fold g = fold_of(LOAD_SOME(X_TYPE, x + i * x_stride, some), i);
    fold_append(f, &g);
    if (out) STORE_SOME(OUT_TYPE, out + i * out_stride, some, fold_value(f));
#if INDICES
    if (out) indices[i * out_stride] = f->at;
#endif
  }
#endif
}

#if W == 1
#define PUT(p, v) *(p) = (v)
#define GET(p) (*(p))
#else
#define PUT(p, v) vstore16(v, 0, p)
#define GET(p) vload16(0, p)
#endif

#define CUMULATE_PARAMS                                                           \
  const __global STORAGE(X_TYPE) * x, const long x_offset, __global real *splits, \
      const long splits_offset, __global long *places, const long places_offset,  \
      const index8 kept_dims, const index8 x_strides, const index_t groups,       \
      const index_t row_size, const index_t n, const index_t x_stride, const int n_splits

/* Stores the fold of each split. splits: (n_splits, groups, 2, W). For extremes, places: (n_splits,
 * groups). */
__kernel void cumulate_splits(CUMULATE_PARAMS) {
  const index_t item = (index_t)get_global_id(0);
  const int split = (int)get_global_id(1);
  if (item >= groups || split >= n_splits) return;
  const index_t per_row = (row_size + W - 1) / W, share = (n + n_splits - 1) / n_splits;
  const index_t column = item % per_row * W, k = item / per_row * row_size + column;
  const index_t from = split * share;
  fold f = fold_start();
  walk(&f, x + x_offset + strided_offset(k, kept_dims, x_strides), 0, 0, from,
       from + share < n ? from + share : n, x_stride, 0,
       (int)(row_size - column < W ? row_size - column : W));
  const long at = (long)split * groups + item;
  PUT(splits + splits_offset + at * 2 * W, f.a);
  PUT(splits + splits_offset + at * 2 * W + W, f.b);
#if IS_EXTREME
  places[places_offset + at] = f.at;
#endif
}

__kernel void cumulate(CUMULATE_PARAMS, __global STORAGE(OUT_TYPE) * out, const long out_offset,
                       __global long *indices, const long indices_offset, const index8 out_strides,
                       const index_t out_stride) {
  const index_t item = (index_t)get_global_id(0);
  const int split = (int)get_global_id(1);
  if (item >= groups || split >= n_splits) return;
  const index_t per_row = (row_size + W - 1) / W, share = (n + n_splits - 1) / n_splits;
  const index_t column = item % per_row * W, k = item / per_row * row_size + column;
  const index_t from = split * share, to = strided_offset(k, kept_dims, out_strides);
  fold f = fold_start();
  for (int s = 0; s < split; s++) {
    const long at = (long)s * groups + item;
    fold before;
    before.a = GET(splits + splits_offset + at * 2 * W);
    before.b = GET(splits + splits_offset + at * 2 * W + W);
#if IS_EXTREME
    before.at = places[places_offset + at];
#else
    before.at = 0;
#endif
    fold_append(&f, &before);
  }
  walk(&f, x + x_offset + strided_offset(k, kept_dims, x_strides), out + out_offset + to,
       indices + indices_offset + to, from, from + share < n ? from + share : n, x_stride,
       out_stride, (int)(row_size - column < W ? row_size - column : W));
}
