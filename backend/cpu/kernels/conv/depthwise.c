/* Depthwise convolution in float, in strips of rows. The weight is not packed: (groups * outputs,
 * taps). Loop order: task (planes, strip), plane, rows. */
#include "backend/cpu/kernels/conv/depthwise.h"

#include "backend/cpu/kernels/conv/depthwise_bf16.h"
#include "backend/cpu/kernels/conv/depthwise_kernels.h"
#include "backend/cpu/kernels/conv/depthwise_lanes.h"
#include "backend/cpu/kernels/elementwise/bf16_steps.h"
#include "backend/cpu/kernels/support/bf16.h"
#include "backend/cpu/kernels/support/slots.h"
#include "backend/cpu/kernels/support/vector.h"
#include "base/counts.h"

void plane_taps_init(const conv_phase *phase, plane_taps *taps) {
  for (int64_t j = 0; j < phase->d[2].taps; j++) {
    valid_columns(phase, input_at(&phase->d[2], 0, j), 0, phase->d[2].count, &taps->first[j],
                  &taps->stop[j]);
    taps->from[j] = input_at(&phase->d[2], taps->first[j], j);
  }
}

/* Finds the terms that a row of taps adds to n cells from `at` on. Returns their number. */
static int find_terms(const conv_phase *phase, const plane_taps *taps, const float *row,
                      const float *weight, int64_t at, int64_t n, weighted_row *to) {
  int count = 0;
  for (int64_t j = 0; j < phase->d[2].taps; j++) {
    int64_t first = taps->first[j] > at ? taps->first[j] : at,
            stop = taps->stop[j] < at + n ? taps->stop[j] : at + n;
    if (first < stop)
      to[count++] =
          (weighted_row){.x = row + taps->from[j] + (first - taps->first[j]) * phase->d[2].stride,
                         .weight = weight[j],
                         .first = first - at,
                         .stop = stop - at};
  }
  return count;
}

void plane_taps_sum(const conv_phase *phase, const plane_taps *taps, const float *plane,
                    const int64_t cell[], int64_t n, float *values) {
  weighted_row terms[MAX_TERMS];
  int64_t tap[CONV_DIMS] = {0};
  const float *w = taps->weight;
  int count = 0;
  for (tap[0] = 0; tap[0] < phase->d[0].taps; tap[0]++)
    for (tap[1] = 0; tap[1] < phase->d[1].taps; tap[1]++, w += phase->d[2].taps) {
      int64_t row = input_row(phase, cell, tap);
      if (row < 0) continue;
      count += find_terms(phase, taps, plane + row * phase->args->dims[2].in, w, cell[2], n,
                          terms + count);
    }
  weighted_sums_f32(n, count, terms, phase->d[2].stride, values);
}

/* ---------------------------------------------------------------- strips */

enum {
  STRIP_BYTES = 24 * 1024, /* bytes of copied rows, which stay in the first-level cache */
  STRIP_ROWS = 4,          /* minimum output rows of a strip */
  WIDEST = 4096,           /* columns of outputs */
  TASK_SUMS = 2048,        /* minimum outputs of a task, which has several planes if necessary */
  TASKS = 4,               /* minimum tasks per thread, if planes are in lanes */
  MULTIPLIES_PER_THREAD = 32 * 1024
};

/* Planes cut into tasks: n strips of `rows` output rows per plane, `planes` planes per task. */
typedef struct strips {
  const conv_phase *a;
  bool lanes;                               /* one plane per lane: depthwise_lanes.h */
  int64_t pitch, rows, n, n_planes, planes; /* pitch: floats of a copied row */
  depthwise_kernel run;
} strips;

static bool is_plain_depth(const window *window, const conv_dim *dim) {
  return dim->in == 1 && window->count == 1 && window->taps == 1 && window->origin == 0;
}

/* True if the padding on either side is smaller than the kernel. */
static bool depthwise_is_small(const window *window, const conv_dim *dim) {
  const int64_t after = input_at(window, window->count - 1, window->taps - 1) - (dim->in - 1);
  return (window->taps == 3 || window->taps == 5) && (window->stride == 1 || window->stride == 2) &&
         window->dilation == 1 && window->origin > -window->taps && after < window->taps &&
         window->count > 0 && dim->in > 0;
}

/* True if the strides are equal, or rows of floats have a stride of 2 where columns have 1. */
static bool depthwise_has_strides(const conv_phase *phase) {
  const int64_t down = phase->d[1].stride, across = phase->d[2].stride;
  return down == across || (down > across && !is_bf16(phase->args->x_type));
}

bool depthwise_fits(const conv_phase *phase) {
  const conv_args *args = phase->args;
  return args->type == DTYPE_F32 && args->weight_type == DTYPE_F32 && !args->transposed &&
         is_plain_depth(&phase->d[0], &args->dims[0]) &&
         depthwise_is_small(&phase->d[1], &args->dims[1]) &&
         depthwise_is_small(&phase->d[2], &args->dims[2]) && phase->d[1].taps == phase->d[2].taps &&
         depthwise_has_strides(phase) && phase->d[2].count <= WIDEST;
}

static int64_t depthwise_at_least_one(int64_t n) { return n > 1 ? n : 1; }

static void cut_rows(strips *strips, int64_t strips_wanted) {
  const int64_t rows = strips->a->d[1].count;
  strips->rows = round_up(ceil_div(rows, strips_wanted), STRIP_ROWS);
  strips->n = ceil_div(rows, strips->rows);
}

/* Cuts the planes into strips whose copied rows stay in the first-level cache. */
static strips make_strips(const kernel_context *ctx, const conv_phase *phase) {
  const int64_t side = phase->d[2].taps, stride = phase->d[2].stride, columns = phase->d[2].count,
                rows = phase->d[1].count, down = phase->d[1].stride;
  strips strips = {.a = phase,
                   .lanes = depthwise_lanes_fit(phase, ctx->n_threads),
                   .pitch = depthwise_pitch(side, stride, columns),
                   .planes = DEPTHWISE_LANES,
                   .n_planes = phase->args->images * phase->args->groups * phase->args->outputs,
                   .run = depthwise_kernel_for(side, down, stride)};
  if (strips.lanes) {
    const int64_t tasks = ceil_div(strips.n_planes, strips.planes), wanted = TASKS * ctx->n_threads;
    cut_rows(&strips, tasks > 0 && ctx->n_threads > 1 ? ceil_div(wanted, tasks) : 1);
    return strips;
  }
  const int64_t seen = STRIP_BYTES / (int64_t)sizeof(float) / strips.pitch,
                fit = seen > side ? (seen - side) / down + 1 : 1;
  cut_rows(&strips, ceil_div(rows, fit > STRIP_ROWS ? fit : STRIP_ROWS));
  strips.planes = strips.n > 1 ? 1 : depthwise_at_least_one(TASK_SUMS / (rows * columns));
  return strips;
}

static int64_t depthwise_strip_work(const strips *strips) {
  return strips->n_planes * cell_count(strips->a) * tap_count(strips->a) / MULTIPLIES_PER_THREAD;
}
static int64_t strip_tasks(const strips *strips) {
  return ceil_div(strips->n_planes, strips->planes) * strips->n;
}
static size_t strip_bytes(const strips *strips) {
  const window *window = &strips->a->d[1];
  if (strips->lanes) return depthwise_lanes_bytes(strips->a, strips->rows);
  return (size_t)(depthwise_reach(window->taps, window->stride, strips->rows) * strips->pitch) *
         sizeof(float);
}

/* True if all n weights are finite. Zeros of the padding then do not change a sum. */
static bool depthwise_weights_are_finite(const float *weight, int64_t n) {
  float sum = 0;
  for (int64_t i = 0; i < n; i++) sum += weight[i] * 0;
  return sum == 0;
}

/* Computes one output; taps outside the image are left out. */
static float depthwise_sum_bf16(const conv_phase *phase, const depthwise_strip *strip, int64_t y,
                                int64_t x) {
  const int64_t side = phase->d[2].taps;
  float sum = 0;
  for (int64_t t = 0; t < side * side; t++) {
    const int64_t row = input_at(&phase->d[1], strip->row + y, t / side),
                  column = input_at(&phase->d[2], x, t % side);
    if (row >= 0 && row < strip->in_rows && column >= 0 && column < strip->in_columns)
      sum += strip->weight[t] * (strip->bf16_x
                                     ? bf16_to_f32(strip->bf16_x[row * strip->in_columns + column])
                                     : strip->x[row * strip->in_columns + column]);
  }
  return sum;
}

static void sum_bf16_rows(const conv_phase *phase, const depthwise_strip *strip) {
  for (int64_t i = 0; i < strip->rows * strip->columns; i++) {
    float sum = depthwise_sum_bf16(phase, strip, i / strip->columns, i % strip->columns);
    conv_epilogue_row(&strip->epilogue, strip->bias, 0, i, 1, &sum, &sum);
    if (strip->bf16_out)
      row_to_bf16(&sum, 1, strip->bf16_out + i);
    else
      strip->out[i] = sum;
  }
}

/* Computes a strip row by row; taps outside the image are left out. */
static void depthwise_sum_rows(const conv_phase *phase, const depthwise_strip *strip) {
  plane_taps taps;
  if (strip->bf16_x || strip->bf16_out) {
    sum_bf16_rows(phase, strip);
    return;
  }
  plane_taps_init(phase, &taps);
  for (int64_t t = 0; t < tap_count(phase); t++) taps.weight[t] = strip->weight[t];
  for (int64_t y = 0; y < strip->rows; y++) {
    const int64_t cell[CONV_DIMS] = {0, strip->row + y, 0};
    float *to = strip->out + y * strip->columns;
    plane_taps_sum(phase, &taps, strip->x, cell, strip->columns, to);
    conv_epilogue_row(&strip->epilogue, strip->bias, 0, y * strip->columns, strip->columns, to, to);
  }
}

/* Computes a strip of an output plane, counted over all images. With a weight that is not finite,
 * taps in the padding are left out. */
static void depthwise_run_strip(const strips *strips, int64_t plane, int64_t strip, char *scratch) {
  const conv_phase *phase = strips->a;
  const conv_args *args = phase->args;
  const int64_t outputs = args->groups * args->outputs, output = plane % outputs,
                channel = output / args->outputs, row = strip * strips->rows,
                left = phase->d[1].count - row;
  depthwise_strip of = {.in_rows = args->dims[1].in,
                        .in_columns = args->dims[2].in,
                        .top = -phase->d[1].origin,
                        .left = -phase->d[2].origin,
                        .weight = (const float *)args->weight + output * tap_count(phase),
                        .bias = args->bias ? ((const float *)args->bias)[output] : -0.0F,
                        .row = row,
                        .rows = left < strips->rows ? left : strips->rows,
                        .columns = phase->d[2].count,
                        .copied = (float *)(void *)scratch,
                        .epilogue = args->epilogue};
  const int64_t in = (plane / outputs * args->groups + channel) * in_size(args);
  const int64_t at = plane * out_size(args) + row * of.columns, n = of.rows * of.columns;
  if (is_bf16(args->x_type)) {
    of.bf16_x = (const uint16_t *)args->x + in;
  } else {
    of.x = (const float *)args->x + in;
    of.x_end = of.x + in_size(args);
  }
  const bool has_steps = args->steps.head.n_steps > 0,
             in_scratch = is_bf16(args->out_type) && has_steps;
  if (in_scratch)
    of.out = of.copied; /* the copy of rows is unused for BF16 */
  else if (is_bf16(args->out_type))
    of.bf16_out = (uint16_t *)args->out + at;
  else
    of.out = (float *)args->out + at;
  if (of.epilogue.added) of.epilogue.added = (const float *)of.epilogue.added + at;
  if (of.epilogue.slope) of.epilogue.slope += output;
  if (depthwise_weights_are_finite(of.weight, tap_count(phase)) && of.bf16_x)
    depthwise_bf16_run(&of, phase->d[2].taps, phase->d[2].stride);
  else if (depthwise_weights_are_finite(of.weight, tap_count(phase)))
    strips->run(&of);
  else
    depthwise_sum_rows(phase, &of);
  if (!in_scratch) {
    steps_in_place(&args->steps, of.out, at, n, 1, 0);
    return;
  }
  bf16_steps(&args->steps, of.out, n);
  row_to_bf16(of.out, n, (uint16_t *)args->out + at);
}

static void depthwise_run_strips(const void *user, int64_t task, char *scratch) {
  const strips *strips = user;
  const int64_t first = task / strips->n * strips->planes, strip = task % strips->n,
                row = strip * strips->rows,
                stop = min_i64(first + strips->planes, strips->n_planes),
                rows = min_i64(strips->rows, strips->a->d[1].count - row);
  if (strips->lanes && depthwise_lanes_run(strips->a, first, stop - first, row, rows, scratch))
    return;
  for (int64_t plane = first; plane < stop; plane++)
    depthwise_run_strip(strips, plane, strip, scratch);
}

size_t depthwise_bytes(const kernel_context *ctx, const conv_phase *phase) {
  const strips strips = make_strips(ctx, phase);
  return slots_bytes(ctx, strip_tasks(&strips), depthwise_strip_work(&strips),
                     strip_bytes(&strips));
}

void depthwise_run(const kernel_context *ctx, const conv_phase *phase, char *scratch) {
  const strips strips = make_strips(ctx, phase);
  run_slots_in(ctx, strip_tasks(&strips), depthwise_strip_work(&strips), strip_bytes(&strips),
               depthwise_run_strips, &strips, scratch);
}
