/* Normalisation by the moments of rows of n contiguous elements, or of given moments (batch_norm).
 *   norm_rows     layer_norm: out[r, i] = (x[r, i] - mean[r]) / sqrt(var[r] + eps) * weight[i]
 *                 + bias[i]
 *                 RMS, rms_norm: out[r, i] = x[r, i] / sqrt(mean of squares + eps) * weight[i]
 *   norm_groups   row r = (sample, group) of n = channels * spatial; weight, bias by channel
 *   norm_batch    row r = (sample, channel) of n = spatial; mean, var, weight, bias by channel
 * mean first, then the mean of squares of deviations. A work-item or a TEAM takes a row, W
 * neighbours at once. */
#include "common.h"
#ifndef X_TYPE
#define X_TYPE F32
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
#include "vector.h"

typedef const __global STORAGE(X_TYPE) * x_pointer;

/* This lane's sum of (x - mean)^2 (SQUARES) or x over a row. */
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
      real part = fold_add(v);                                                       \
      for (i = from + (end - from) / W * W + LANE; i < end; i += TEAM) {             \
        const real t = LOAD(X_TYPE, x, i);                                           \
        part += TAKE(t, mean);                                                       \
      }                                                                              \
      total += part;                                                                 \
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
      __global STORAGE(X_TYPE) * out, const long out_offset, const index_t rows, const real eps

/* A row of n that this lane has a part of: as the loops over out have it. */
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
    STOREW(X_TYPE, out + i, v);
  }
  for (i = n / W * W + LANE; i < n; i += TEAM) {
    real v = (LOAD(X_TYPE, x, i) - mean) * scale;
    v = TIMES_WEIGHT(v, LOAD(PARAM_TYPE, weight, i));
    v = PLUS_BIAS(v, LOAD(PARAM_TYPE, bias, i));
    STORE(X_TYPE, out, i, v);
  }
  EPILOGUE_ROW(out, r * n, n);
}

/* out[i] = (x[i] - mean) * scale + shift for i in [0, n). */
static inline void scale_row(x_pointer x, __global STORAGE(X_TYPE) * out, index_t n, real mean,
                             real scale, real shift) {
  index_t i = LANE * W;
  for (; i + W <= n; i += TEAM * W) {
    const realw v = (LOADW(X_TYPE, x + i) - mean) * scale + shift;
    STOREW(X_TYPE, out + i, v);
  }
  for (i = n / W * W + LANE; i < n; i += TEAM) {
    const real v = (LOAD(X_TYPE, x, i) - mean) * scale + shift;
    STORE(X_TYPE, out, i, v);
  }
}

__kernel void norm_groups(NORM_PARAMS, const index_t groups, const index_t channels,
                          const index_t spatial) {
  TEAM_MEMORY(memory);
  const index_t r = (index_t)TEAM_INDEX;
  if (TEAM == 1 && r >= rows) return;
  const index_t n = channels * spatial, first = r % groups * channels;
  x += x_offset + r * n;
  out += out_offset + r * n;
  const real mean = sum_team(sum_values(x, n, 0), memory) / (real)n;
  const real scale = 1 / sqrt(sum_team(sum_squares(x, n, mean), memory) / (real)n + eps);
  for (index_t c = 0; c < channels; c++) {
    const real channel_scale =
        TIMES_WEIGHT(scale, LOAD(PARAM_TYPE, weight, weight_offset + first + c));
    const real shift = PLUS_BIAS((real)0, LOAD(PARAM_TYPE, bias, bias_offset + first + c));
    scale_row(x + c * spatial, out + c * spatial, spatial, mean, channel_scale, shift);
    EPILOGUE_ROW(out + c * spatial, r * n + c * spatial, spatial);
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
