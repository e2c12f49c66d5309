/* Normalisations: two passes of statistics over a contiguous run, then one affine pass. F32 is read
 * in place; other floats are converted to doubles block by block. */
#include "backend/cpu/kernels/norm.h"

#include <math.h>

#include "backend/cpu/kernels/elementwise/bf16_steps.h"
#include "backend/cpu/kernels/norm_rows.h"
#include "backend/cpu/kernels/support/bf16.h"
#include "backend/cpu/kernels/support/rows.h"

enum { GRAIN = 16 * 1024 /* elements that justify waking a thread */ };

static double element_or(const ktensor *t, int64_t i, double absent) {
  double v = absent;
  if (t->data) load_row(COMPUTE_F64, t->type, element_at(t->data, t->type, i), 1, 1, &v);
  return v;
}

/* Loads elements [at, at + n) of a contiguous tensor. If it is absent, writes `fill` instead. */
static void kernel_norm_load_range(const ktensor *t, int64_t at, int64_t n, double fill,
                                   double *to) {
  if (t->data) {
    load_row(COMPUTE_F64, t->type, element_at(t->data, t->type, at), 1, n, to);
  } else {
    for (int64_t i = 0; i < n; i++) to[i] = fill;
  }
}

static double sum_lanes(const double *lane) {
  return ((lane[0] + lane[1]) + (lane[2] + lane[3])) + ((lane[4] + lane[5]) + (lane[6] + lane[7]));
}

/* Returns the sum over elements [at, at + n) of x - shift, or of its square. */
static double sum_range(const ktensor *x, int64_t at, int64_t n, double shift, bool square) {
  double lane[8] = {0}, block[ROW_BLOCK];
  if (x->type == DTYPE_F32)
    return choose_norm_rows().sum(n, (const float *)x->data + at, shift, square);
  for (int64_t done = 0; done < n; done += ROW_BLOCK) {
    int64_t m = n - done < ROW_BLOCK ? n - done : ROW_BLOCK, i = 0;
    kernel_norm_load_range(x, at + done, m, 0, block);
    for (int64_t k = 0; k < m; k++)
      block[k] = square ? (block[k] - shift) * (block[k] - shift) : block[k] - shift;
    for (; i + 8 <= m; i += 8)
      for (int k = 0; k < 8; k++) lane[k] += block[i + k];
    for (; i < m; i++) lane[0] += block[i];
  }
  return sum_lanes(lane);
}

static void kernel_norm_measure(const ktensor *x, int64_t at, int64_t n, double eps, double *mean,
                                double *inverse) {
  *mean = sum_range(x, at, n, 0, false) / (double)n;
  *inverse = 1 / sqrt(sum_range(x, at, n, *mean, true) / (double)n + eps);
}

/* ---------------------------------------------------------------- over rows */

/* Returns elements [at, at + n) of a float parameter; if it is absent, `fill`, stored in `scratch`.
 */
static const float *kernel_norm_find_range(const ktensor *t, int64_t at, int64_t n, float fill,
                                           float *scratch) {
  if (t->data) return (const float *)t->data + at;
  for (int64_t i = 0; i < n; i++) scratch[i] = fill;
  return scratch;
}

static bool kernel_norm_is_f32(const ktensor *t) { return !t->data || t->type == DTYPE_F32; }

static void kernel_norm_scale_floats(const row_norm *norm, int64_t r, double mean, double inverse) {
  const norm_rows rows = choose_norm_rows();
  const bool rounds = is_bf16(norm->out.type);
  float ones[ROW_BLOCK], zeros[ROW_BLOCK], scratch[ROW_BLOCK];
  for (int64_t at = 0; at < norm->row; at += ROW_BLOCK) {
    const int64_t n = norm->row - at < ROW_BLOCK ? norm->row - at : ROW_BLOCK,
                  i = r * norm->row + at;
    rows.scale(n, (const float *)norm->x.data + i, mean, inverse,
               kernel_norm_find_range(&norm->weight, at, n, 1, ones),
               kernel_norm_find_range(&norm->bias, at, n, 0, zeros),
               rounds ? scratch : (float *)norm->out.data + i);
    if (rounds) row_to_bf16(scratch, n, (uint16_t *)norm->out.data + i);
  }
}

static void scale_row(const row_norm *norm, int64_t r, double mean, double inverse) {
  double x[ROW_BLOCK], weight[ROW_BLOCK], bias[ROW_BLOCK];
  if (kernel_norm_is_f32(&norm->x) && kernel_norm_is_f32(&norm->weight) &&
      kernel_norm_is_f32(&norm->bias) &&
      (kernel_norm_is_f32(&norm->out) || is_bf16(norm->out.type))) {
    kernel_norm_scale_floats(norm, r, mean, inverse);
    return;
  }
  for (int64_t at = 0; at < norm->row; at += ROW_BLOCK) {
    int64_t n = norm->row - at < ROW_BLOCK ? norm->row - at : ROW_BLOCK;
    kernel_norm_load_range(&norm->x, r * norm->row + at, n, 0, x);
    kernel_norm_load_range(&norm->weight, at, n, 1, weight);
    kernel_norm_load_range(&norm->bias, at, n, 0, bias);
    for (int64_t i = 0; i < n; i++) x[i] = (x[i] - mean) * inverse * weight[i] + bias[i];
    store_row(COMPUTE_F64, norm->out.type,
              element_at(norm->out.data, norm->out.type, r * norm->row + at), 1, n, x);
  }
}

static void layer_norm_rows(void *ctx, int64_t begin, int64_t end) {
  const row_norm *norm = ctx;
  for (int64_t r = begin; r < end; r++) {
    double mean, inverse;
    kernel_norm_measure(&norm->x, r * norm->row, norm->row, norm->eps, &mean, &inverse);
    scale_row(norm, r, mean, inverse);
  }
}

static void rms_norm_rows(void *ctx, int64_t begin, int64_t end) {
  const row_norm *norm = ctx;
  for (int64_t r = begin; r < end; r++)
    scale_row(norm, r, 0,
              1 / sqrt(sum_range(&norm->x, r * norm->row, norm->row, 0, true) / (double)norm->row +
                       norm->eps));
}

static bool kernel_norm_run_rows(const kernel_context *ctx, const row_norm *norm,
                                 kernel_body body) {
  row_norm task = *norm;
  if (norm->row > 0) ctx->parallel_for(ctx->pool, norm->n_rows, GRAIN / norm->row + 1, body, &task);
  return true;
}

static bool layer_norm(const kernel_context *ctx, const void *args) {
  return kernel_norm_run_rows(ctx, args, layer_norm_rows);
}
static bool rms_norm(const kernel_context *ctx, const void *args) {
  return kernel_norm_run_rows(ctx, args, rms_norm_rows);
}

#define ROW_NORM_OPERANDS                                                     \
  {                                                                           \
    OPERAND(row_norm, x), OPERAND(row_norm, weight), OPERAND(row_norm, bias), \
        OPERAND(row_norm, out)                                                \
  }
const kernel_desc kernel_layer_norm = {.name = "layer_norm",
                                       .run = layer_norm,
                                       .args_size = sizeof(row_norm),
                                       .operands = ROW_NORM_OPERANDS};
const kernel_desc kernel_rms_norm = {.name = "rms_norm",
                                     .run = rms_norm,
                                     .args_size = sizeof(row_norm),
                                     .operands = ROW_NORM_OPERANDS};

/* ---------------------------------------------------------------- over channels */

/* Stores x * scale + shift for elements [at, at + n) of F32, and applies the epilogue. */
static void scale_block(const channel_norm *norm, int64_t at, int64_t n, double scale,
                        double shift) {
  float scratch[ROW_BLOCK];
  const bool rounds = is_bf16(norm->out.type);
  float *to = rounds ? scratch : (float *)norm->out.data + at;
  if (is_bf16(norm->x.type))
    bf16_shift((const uint16_t *)norm->x.data + at, n, (float)scale, (float)shift, to);
  else
    choose_norm_rows().shift(n, (const float *)norm->x.data + at, scale, shift, to);
  if (!rounds) {
    steps_in_place(&norm->steps, to, at, n, 1, 0);
    return;
  }
  bf16_steps(&norm->steps, to, n);
  row_to_bf16(to, n, (uint16_t *)norm->out.data + at);
}

/* Works like scale_block, for any float dtype. */
static void scale_any(const channel_norm *norm, int64_t at, int64_t n, double scale, double shift) {
  double x[ROW_BLOCK];
  kernel_norm_load_range(&norm->x, at, n, 0, x);
  for (int64_t i = 0; i < n; i++) x[i] = x[i] * scale + shift;
  store_row(COMPUTE_F64, norm->out.type, element_at(norm->out.data, norm->out.type, at), 1, n, x);
}

/* Scales plane `k` of the batch * channels planes. */
static void scale_plane(const channel_norm *norm, int64_t k, double scale, double shift) {
  for (int64_t at = 0; at < norm->plane; at += ROW_BLOCK) {
    const int64_t n = norm->plane - at < ROW_BLOCK ? norm->plane - at : ROW_BLOCK;
    if (norm->type == DTYPE_F32)
      scale_block(norm, k * norm->plane + at, n, scale, shift);
    else
      scale_any(norm, k * norm->plane + at, n, scale, shift);
  }
}

static void normalize_plane(const channel_norm *norm, int64_t k, double mean, double inverse) {
  int64_t c = k % norm->channels;
  double scale = inverse * element_or(&norm->weight, c, 1);
  scale_plane(norm, k, scale, element_or(&norm->bias, c, 0) - mean * scale);
}

/* Works like kernel_norm_measure() in one pass, by sums of differences from the mean of the first
 * elements. */
static void measure_bf16(const channel_norm *norm, int64_t at, int64_t n, double *mean,
                         double *inverse) {
  const uint16_t *x = (const uint16_t *)norm->x.data + at;
  const int64_t some = n < ROW_BLOCK ? n : ROW_BLOCK;
  const float shift = (float)(bf16_sum(x, some) / (double)some);
  double sums[2] = {0};
  bf16_moments(x, n, shift, sums);
  const double off = sums[0] / (double)n, var = sums[1] / (double)n - off * off;
  *mean = (double)shift + off;
  *inverse = 1 / sqrt((var < 0 ? 0 : var) + norm->eps);
}

static void group_norm_groups(void *ctx, int64_t begin, int64_t end) {
  const channel_norm *norm = ctx;
  int64_t per_group = norm->channels / norm->groups;
  for (int64_t g = begin; g < end; g++) {
    double mean, inverse;
    const int64_t at = g * per_group * norm->plane, n = per_group * norm->plane;
    if (norm->type == DTYPE_F32 && is_bf16(norm->x.type))
      measure_bf16(norm, at, n, &mean, &inverse);
    else
      kernel_norm_measure(&norm->x, at, n, norm->eps, &mean, &inverse);
    for (int64_t k = g * per_group; k < (g + 1) * per_group; k++)
      normalize_plane(norm, k, mean, inverse);
  }
}

static void batch_norm_planes(void *ctx, int64_t begin, int64_t end) {
  const channel_norm *norm = ctx;
  for (int64_t k = begin; k < end; k++) {
    int64_t c = k % norm->channels;
    normalize_plane(norm, k, element_or(&norm->mean, c, 0),
                    1 / sqrt(element_or(&norm->var, c, 1) + norm->eps));
  }
}

static bool group_norm(const kernel_context *ctx, const void *args) {
  channel_norm task = *(const channel_norm *)args;
  if (task.batch * task.channels * task.plane == 0) return true;
  int64_t size = task.channels / task.groups * task.plane;
  ctx->parallel_for(ctx->pool, task.batch * task.groups, GRAIN / size + 1, group_norm_groups,
                    &task);
  return true;
}

static bool batch_norm(const kernel_context *ctx, const void *args) {
  channel_norm task = *(const channel_norm *)args;
  if (task.batch * task.channels * task.plane == 0) return true;
  ctx->parallel_for(ctx->pool, task.batch * task.channels, GRAIN / task.plane + 1,
                    batch_norm_planes, &task);
  return true;
}

#define CHANNEL_NORM_OPERANDS                                                                \
  {                                                                                          \
    OPERAND(channel_norm, x), OPERAND(channel_norm, weight), OPERAND(channel_norm, bias),    \
        OPERAND(channel_norm, mean), OPERAND(channel_norm, var), OPERAND(channel_norm, out), \
        OPERAND(channel_norm, steps.inputs[1]), OPERAND(channel_norm, steps.inputs[2])       \
  }
const kernel_desc kernel_group_norm = {.name = "group_norm",
                                       .run = group_norm,
                                       .args_size = sizeof(channel_norm),
                                       .operands = CHANNEL_NORM_OPERANDS,
                                       .steps = OPERAND(channel_norm, steps)};
const kernel_desc kernel_batch_norm = {.name = "batch_norm",
                                       .run = batch_norm,
                                       .args_size = sizeof(channel_norm),
                                       .operands = CHANNEL_NORM_OPERANDS,
                                       .steps = OPERAND(channel_norm, steps)};
