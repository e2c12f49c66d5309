/* Normalisation by the moments of rows of n contiguous elements, or by given moments (batch_norm).
 *   norm_rows     layer_norm: out[r, i] = (x[r, i] - mean[r]) / sqrt(var[r] + eps) * weight[i]
 *                 + bias[i]
 *                 RMS, rms_norm: out[r, i] = x[r, i] / sqrt(mean of squares + eps) * weight[i]
 *   norm_groups   row r = (sample, group) of n = channels * spatial; weight, bias by channel.
 *                 IN_SPLITS: norm_split has summed the splits of each row before
 *   norm_batch    row r = (sample, channel) of n = spatial; mean, var, weight, bias by channel
 * Moments are computed in two passes: the mean, then the mean of squared deviations. A work-item or
 * a TEAM processes a row, W neighbours at once. */
#include "common.h"
#ifndef X_TYPE
#define X_TYPE F32
#endif
#ifndef OUT_TYPE
#define OUT_TYPE X_TYPE
#endif
#ifndef PARAM_TYPE
#define PARAM_TYPE F32
#endif
#ifndef RMS
#define RMS 0
#endif
#ifndef HAS_WEIGHT
#define HAS_WEIGHT 1
#endif
#ifndef HAS_BIAS
#define HAS_BIAS 1
#endif
#ifndef IN_SPLITS
#define IN_SPLITS 0
#endif
#ifndef SQUARES
#define SQUARES 0
#endif
#include "vector.h"

typedef const __global STORAGE(X_TYPE) * x_pointer;

/* Defines a function that returns this lane's sum over a row, of x or of (x - mean)^2 (SQUARES). */
#define DEFINE_ROW_SUM(name, TAKE)                                                   \
  static inline real PASTE(sum_, name)(x_pointer x, index_t n, real mean) {          \
    real total = 0;                                                                  \
    for (index_t from = 0; from < n; from += BLOCK * W * TEAM) {                     \
      const index_t end = from + BLOCK * W * TEAM < n ? from + BLOCK * W * TEAM : n; \
      realw v = (realw)0;                                                            \
      index_t i = from + LANE * W;                                                   \
      for (; i + W <= end; i += TEAM * W) {                                          \
        const realw t = LOADW(X_TYPE, x + i);                                        \
        v += TAKE(t, mean);                                                          \
      }                                                                              \
      real partial = fold_add(v);                                                    \
      for (i = from + (end - from) / W * W + LANE; i < end; i += TEAM) {             \
        const real t = LOAD(X_TYPE, x, i);                                           \
        partial += TAKE(t, mean);                                                    \
      }                                                                              \
      total += partial;                                                              \
    }                                                                                \
    return total;                                                                    \
  }
#define TAKE_VALUE(t, mean) (t)
#define TAKE_SQUARE(t, mean) (((t) - (mean)) * ((t) - (mean)))
DEFINE_ROW_SUM(values, TAKE_VALUE)
DEFINE_ROW_SUM(squares, TAKE_SQUARE)

#if HAS_WEIGHT
#define TIMES_WEIGHT(v, w) (v) * (w)
#else
#define TIMES_WEIGHT(v, w) (v)
#endif
#if HAS_BIAS
#define PLUS_BIAS(v, b) (v) + (b)
#else
#define PLUS_BIAS(v, b) (v)
#endif

#define NORM_PARAMS                                                          \
  const __global STORAGE(X_TYPE) * x, const long x_offset,                   \
      const __global STORAGE(PARAM_TYPE) * weight, const long weight_offset, \
      const __global STORAGE(PARAM_TYPE) * bias, const long bias_offset,     \
      __global STORAGE(OUT_TYPE) * out, const long out_offset, const index_t rows, const real eps

/* Applies the epilogue to this lane's elements of a row of n, in the order of the stores. */
#if TEAM == 1
#define EPILOGUE_ROW(out, first, n) EPILOGUE(out, first, n)
#else
#define EPILOGUE_ROW(out, first, n)                                                               \
  for (index_t i_ = LANE * W; i_ + W <= n; i_ += TEAM * W) EPILOGUE((out) + i_, (first) + i_, W); \
  for (index_t i_ = n / W * W + LANE; i_ < n; i_ += TEAM) EPILOGUE((out) + i_, (first) + i_, 1)
#endif

__kernel void norm_rows(NORM_PARAMS, const index_t n) {
  TEAM_MEMORY(memory);
  const index_t r = (index_t)TEAM_INDEX;
  if (TEAM == 1 && r >= rows) return;
  x += x_offset + r * n;
  out += out_offset + r * n;
  weight += weight_offset;
  bias += bias_offset;
#if RMS
  const real mean = 0;
#else
  const real mean = sum_team(sum_values(x, n, 0), memory) / (real)n;
#endif
  const real scale = 1 / sqrt(sum_team(sum_squares(x, n, mean), memory) / (real)n + eps);
  index_t i = LANE * W;
  for (; i + W <= n; i += TEAM * W) {
    realw v = (LOADW(X_TYPE, x + i) - mean) * scale;
    v = TIMES_WEIGHT(v, LOADW(PARAM_TYPE, weight + i));
    v = PLUS_BIAS(v, LOADW(PARAM_TYPE, bias + i));
    STOREW(OUT_TYPE, out + i, v);
  }
  for (i = n / W * W + LANE; i < n; i += TEAM) {
    real v = (LOAD(X_TYPE, x, i) - mean) * scale;
    v = TIMES_WEIGHT(v, LOAD(PARAM_TYPE, weight, i));
    v = PLUS_BIAS(v, LOAD(PARAM_TYPE, bias, i));
    STORE(OUT_TYPE, out, i, v);
  }
  EPILOGUE_ROW(out, r * n, n);
}

/* out[i] = (x[i] - mean) * scale + shift for i in [0, n). */
static inline void scale_row(x_pointer x, __global STORAGE(OUT_TYPE) * out, index_t n, real mean,
                             real scale, real shift) {
  index_t i = LANE * W;
  for (; i + W <= n; i += TEAM * W) {
    const realw v = (LOADW(X_TYPE, x + i) - mean) * scale + shift;
    STOREW(OUT_TYPE, out + i, v);
  }
  for (i = n / W * W + LANE; i < n; i += TEAM) {
    const real v = (LOAD(X_TYPE, x, i) - mean) * scale + shift;
    STORE(OUT_TYPE, out, i, v);
  }
}

/* Returns the sum of a row: adds the sums of its splits, which norm_split stored. */
static inline real add_sums(const __global real *sums, index_t n_splits) {
  real total = 0;
  for (index_t p = 0; p < n_splits; p++) total += sums[p];
  return total;
}

/* Sums each of the n_splits splits (split_size elements) of a row. sums: (2, rows, n_splits), first
 * of the values, then of their squared deviations from the mean. The second pass (SQUARES) reads
 * the results of the first. items: rows * n_splits. */
__kernel void norm_split(const __global STORAGE(X_TYPE) * x, const long x_offset,
                         __global real *sums, const long sums_offset, const index_t items,
                         const index_t n, const index_t n_splits, const index_t split_size) {
  TEAM_MEMORY(memory);
  const index_t item = (index_t)TEAM_INDEX;
  if (TEAM == 1 && item >= items) return;
  const index_t begin = item % n_splits * split_size;
  sums += sums_offset;
  x += x_offset + item / n_splits * n + begin;
  const index_t some = min(split_size, n - begin);
#if SQUARES
  const real mean = add_sums(sums + item / n_splits * n_splits, n_splits) / (real)n;
  const real sum = sum_team(sum_squares(x, some, mean), memory);
#else
  const real sum = sum_team(sum_values(x, some, 0), memory);
#endif
  if (LANE == 0) sums[SQUARES * items + item] = sum;
}

/* sums: results of norm_split, if n_splits is not 1. */
__kernel void norm_groups(NORM_PARAMS, const index_t groups, const index_t channels,
                          const index_t spatial, const __global real *sums, const long sums_offset,
                          const index_t n_splits, const index_t split_size) {
  TEAM_MEMORY(memory);
  const index_t item = (index_t)TEAM_INDEX, r = item / n_splits;
  if (TEAM == 1 && r >= rows) return;
  const index_t n = channels * spatial, first = r % groups * channels,
                begin = item % n_splits * split_size, end = min(begin + split_size, n);
  x += x_offset + r * n;
  out += out_offset + r * n;
#if IN_SPLITS
  sums += sums_offset + r * n_splits;
  const real mean = add_sums(sums, n_splits) / (real)n,
             squares = add_sums(sums + rows * n_splits, n_splits);
#else
  const real mean = sum_team(sum_values(x, n, 0), memory) / (real)n,
             squares = sum_team(sum_squares(x, n, mean), memory);
#endif
  const real scale = 1 / sqrt(squares / (real)n + eps);
  for (index_t from = begin; from < end;) {
    const index_t c = from / spatial, some = min(end, (c + 1) * spatial) - from;
    const real channel_scale =
        TIMES_WEIGHT(scale, LOAD(PARAM_TYPE, weight, weight_offset + first + c));
    const real shift = PLUS_BIAS((real)0, LOAD(PARAM_TYPE, bias, bias_offset + first + c));
    scale_row(x + from, out + from, some, mean, channel_scale, shift);
    EPILOGUE_ROW(out + from, r * n + from, some);
    from += some;
  }
}

__kernel void norm_batch(NORM_PARAMS, const __global STORAGE(PARAM_TYPE) * mean,
                         const long mean_offset, const __global STORAGE(PARAM_TYPE) * var,
                         const long var_offset, const index_t channels, const index_t spatial) {
  const index_t r = (index_t)TEAM_INDEX;
  if (TEAM == 1 && r >= rows) return;
  const index_t c = r % channels;
  const real inverse = 1 / sqrt(LOAD(PARAM_TYPE, var, var_offset + c) + eps);
  const real scale = TIMES_WEIGHT(inverse, LOAD(PARAM_TYPE, weight, weight_offset + c));
  const real shift = PLUS_BIAS((real)0, LOAD(PARAM_TYPE, bias, bias_offset + c));
  scale_row(x + x_offset + r * spatial, out + out_offset + r * spatial, spatial,
            LOAD(PARAM_TYPE, mean, mean_offset + c), scale, shift);
  EPILOGUE_ROW(out + out_offset + r * spatial, r * spatial, spatial);
}
