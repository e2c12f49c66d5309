/* Planes convolved by themselves. */
#include "backend/cpu/kernels/conv/depthwise.h"

#include "backend/cpu/kernels/conv/depthwise_bf16.h"
#include "backend/cpu/kernels/conv/depthwise_kernels.h"
#include "backend/cpu/kernels/conv/depthwise_lanes.h"
#include "backend/cpu/kernels/elementwise/bf16_steps.h"
#include "backend/cpu/kernels/support/bf16.h"
#include "backend/cpu/kernels/support/counts.h"
#include "backend/cpu/kernels/support/slots.h"
#include "backend/cpu/kernels/support/vector.h"

void plane_taps_init(const conv_part *a, plane_taps *p) {
  for (int64_t j = 0; j < a->d[2].taps; j++) {
    valid_columns(a, input_at(&a->d[2], 0, j), 0, a->d[2].count, &p->first[j], &p->stop[j]);
    p->from[j] = input_at(&a->d[2], p->first[j], j);
  }
}

/* The columns of the taps in a row of the plane, for n cells from `at` on; how many meet them. */
static int find_terms(const conv_part *a, const plane_taps *p, const float *row,
                      const float *weight, int64_t at, int64_t n, weighted_row *to) {
  int count = 0;
  for (int64_t j = 0; j < a->d[2].taps; j++) {
    int64_t first = p->first[j] > at ? p->first[j] : at,
            stop = p->stop[j] < at + n ? p->stop[j] : at + n;
    if (first < stop)
      to[count++] = (weighted_row){.x = row + p->from[j] + (first - p->first[j]) * a->d[2].stride,
                                   .weight = weight[j],
                                   .first = first - at,
                                   .stop = stop - at};
  }
  return count;
}

void plane_taps_sum(const conv_part *a, const plane_taps *p, const float *plane,
                    const int64_t cell[], int64_t n, float *values) {
  weighted_row terms[MOST_TERMS];
  int64_t tap[CONV_DIMS] = {0};
  const float *w = p->weight;
  int count = 0;
  for (tap[0] = 0; tap[0] < a->d[0].taps; tap[0]++)
    for (tap[1] = 0; tap[1] < a->d[1].taps; tap[1]++, w += a->d[2].taps) {
      int64_t row = input_row(a, cell, tap);
      if (row < 0) continue;
      count += find_terms(a, p, plane + row * a->p->dims[2].in, w, cell[2], n, terms + count);
    }
  weighted_sums_f32(n, count, terms, a->d[2].stride, values);
}

/* ---------------------------------------------------------------- strips */

enum {
  STRIP_BYTES = 24 * 1024, /* of copied rows: they stay in the first cache */
  STRIP_ROWS = 4,          /* outputs, at least */
  WIDEST = 4096,           /* columns of outputs */
  TASK_SUMS = 2048,        /* a task makes so many outputs at least, of several planes */
  TASKS = 4,               /* of a thread, at least, where planes lie in lanes */
  MULTIPLIES_PER_THREAD = 32 * 1024
};

/* What is made: `n` strips of `rows` output rows of each plane, `planes` planes in a task. */
typedef struct strips {
  const conv_part *a;
  bool lanes; /* those planes lie in lanes: depthwise_lanes.h */
  int64_t pitch, rows, n, n_planes, planes;
  depthwise_kernel run;
} strips;

static bool is_plain_depth(const window *d, const conv_dim *k) {
  return k->in == 1 && d->count == 1 && d->taps == 1 && d->origin == 0;
}

/* Padding on both sides is less than the kernel. */
static bool is_small(const window *d, const conv_dim *k) {
  const int64_t behind = input_at(d, d->count - 1, d->taps - 1) - (k->in - 1);
  return (d->taps == 3 || d->taps == 5) && (d->stride == 1 || d->stride == 2) && d->dilation == 1 &&
         d->origin > -d->taps && behind < d->taps && d->count > 0 && k->in > 0;
}

bool depthwise_fits(const conv_part *a) {
  const conv_args *p = a->p;
  return p->type == DTYPE_F32 && p->weight_type == DTYPE_F32 && !p->transposed &&
         is_plain_depth(&a->d[0], &p->dims[0]) && is_small(&a->d[1], &p->dims[1]) &&
         is_small(&a->d[2], &p->dims[2]) && a->d[1].taps == a->d[2].taps &&
         a->d[1].stride == a->d[2].stride && a->d[2].count <= WIDEST;
}

static int64_t at_least_one(int64_t n) { return n > 1 ? n : 1; }

static void cut_rows(strips *s, int64_t strips_wanted) {
  const int64_t rows = s->a->d[1].count;
  s->rows = round_up(ceil_div(rows, strips_wanted), STRIP_ROWS);
  s->n = ceil_div(rows, s->rows);
}

static strips make_strips(const kernel_context *ctx, const conv_part *a) {
  const int64_t side = a->d[2].taps, stride = a->d[2].stride, columns = a->d[2].count,
                rows = a->d[1].count;
  strips s = {.a = a,
              .lanes = depthwise_lanes_fit(a, ctx->n_threads),
              .pitch = depthwise_pitch(side, stride, columns),
              .planes = DEPTHWISE_LANES,
              .n_planes = a->p->images * a->p->groups * a->p->outputs,
              .run = depthwise_kernel_for(side, stride)};
  if (s.lanes) {
    const int64_t tasks = ceil_div(s.n_planes, s.planes), wanted = TASKS * ctx->n_threads;
    cut_rows(&s, tasks > 0 && ctx->n_threads > 1 ? ceil_div(wanted, tasks) : 1);
    return s;
  }
  const int64_t seen = STRIP_BYTES / (int64_t)sizeof(float) / s.pitch,
                fit = seen > side ? (seen - side) / stride + 1 : 1;
  cut_rows(&s, ceil_div(rows, fit > STRIP_ROWS ? fit : STRIP_ROWS));
  s.planes = s.n > 1 ? 1 : at_least_one(TASK_SUMS / (rows * columns));
  return s;
}

static int64_t strip_work(const strips *s) {
  return s->n_planes * cell_count(s->a) * tap_count(s->a) / MULTIPLIES_PER_THREAD;
}
static int64_t strip_tasks(const strips *s) { return ceil_div(s->n_planes, s->planes) * s->n; }
static size_t strip_bytes(const strips *s) {
  const window *d = &s->a->d[1];
  if (s->lanes) return depthwise_lanes_bytes(s->a, s->rows);
  return (size_t)(depthwise_reach(d->taps, d->stride, s->rows) * s->pitch) * sizeof(float);
}

/* Zeros of the padding add nothing to a sum then. */
static bool are_finite(const float *weight, int64_t n) {
  float sum = 0;
  for (int64_t i = 0; i < n; i++) sum += weight[i] * 0;
  return sum == 0;
}

/* An output, of which what lies outside of the image is left out. */
static float sum_narrow(const conv_part *a, const depthwise_strip *s, int64_t y, int64_t x) {
  const int64_t side = a->d[2].taps;
  float sum = 0;
  for (int64_t t = 0; t < side * side; t++) {
    const int64_t row = input_at(&a->d[1], s->row + y, t / side),
                  column = input_at(&a->d[2], x, t % side);
    if (row >= 0 && row < s->in_rows && column >= 0 && column < s->in_columns)
      sum += s->weight[t] * (s->bf16_x ? bf16_to_f32(s->bf16_x[row * s->in_columns + column])
                                       : s->x[row * s->in_columns + column]);
  }
  return sum;
}

static void sum_narrow_rows(const conv_part *a, const depthwise_strip *s) {
  for (int64_t i = 0; i < s->rows * s->columns; i++) {
    float sum = sum_narrow(a, s, i / s->columns, i % s->columns);
    conv_tail_row(&s->tail, s->bias, i, 1, &sum, &sum);
    if (s->bf16_out)
      narrow_row(&sum, 1, s->bf16_out + i);
    else
      s->out[i] = sum;
  }
}

/* The same row by row, of which what lies outside of the image is left out. */
static void sum_rows(const conv_part *a, const depthwise_strip *s) {
  plane_taps taps;
  if (s->bf16_x || s->bf16_out) {
    sum_narrow_rows(a, s);
    return;
  }
  plane_taps_init(a, &taps);
  for (int64_t t = 0; t < tap_count(a); t++) taps.weight[t] = s->weight[t];
  for (int64_t y = 0; y < s->rows; y++) {
    const int64_t cell[CONV_DIMS] = {0, s->row + y, 0};
    float *to = s->out + y * s->columns;
    plane_taps_sum(a, &taps, s->x, cell, s->columns, to);
    conv_tail_row(&s->tail, s->bias, y * s->columns, s->columns, to, to);
  }
}

static void run_strip(const strips *s, int64_t plane, int64_t strip, char *scratch) {
  const conv_part *a = s->a;
  const conv_args *p = a->p;
  const int64_t outputs = p->groups * p->outputs, output = plane % outputs,
                channel = output / p->outputs, row = strip * s->rows, left = a->d[1].count - row;
  depthwise_strip of = {.in_rows = p->dims[1].in,
                        .in_columns = p->dims[2].in,
                        .top = -a->d[1].origin,
                        .left = -a->d[2].origin,
                        .weight = (const float *)p->weight + output * tap_count(a),
                        .bias = p->bias ? ((const float *)p->bias)[output] : -0.0F,
                        .row = row,
                        .rows = left < s->rows ? left : s->rows,
                        .columns = a->d[2].count,
                        .copied = (float *)(void *)scratch,
                        .tail = p->tail};
  const int64_t in = (plane / outputs * p->groups + channel) * in_size(p);
  const int64_t at = plane * out_size(p) + row * of.columns, n = of.rows * of.columns;
  if (is_bf16(p->x_type)) {
    of.bf16_x = (const uint16_t *)p->x + in;
  } else {
    of.x = (const float *)p->x + in;
    of.x_end = of.x + in_size(p);
  }
  const bool has_steps = p->steps.head.n_steps > 0, in_scratch = is_bf16(p->out_type) && has_steps;
  if (in_scratch)
    of.out = of.copied; /* which narrow rows do not need */
  else if (is_bf16(p->out_type))
    of.bf16_out = (uint16_t *)p->out + at;
  else
    of.out = (float *)p->out + at;
  if (of.tail.added) of.tail.added = (const float *)of.tail.added + at;
  if (are_finite(of.weight, tap_count(a)) && of.bf16_x)
    depthwise_bf16_run(&of, a->d[2].taps, a->d[2].stride);
  else if (are_finite(of.weight, tap_count(a)))
    s->run(&of);
  else
    sum_rows(a, &of);
  if (!in_scratch) {
    steps_in_place(&p->steps, of.out, at, n, 1, 0);
    return;
  }
  bf16_steps(&p->steps, of.out, n);
  narrow_row(of.out, n, (uint16_t *)p->out + at);
}

static void run_strips(const void *user, int64_t task, char *scratch) {
  const strips *s = user;
  const int64_t first = task / s->n * s->planes, strip = task % s->n, row = strip * s->rows,
                stop = least(first + s->planes, s->n_planes),
                rows = least(s->rows, s->a->d[1].count - row);
  if (s->lanes && depthwise_lanes_run(s->a, first, stop - first, row, rows, scratch)) return;
  for (int64_t plane = first; plane < stop; plane++) run_strip(s, plane, strip, scratch);
}

size_t depthwise_bytes(const kernel_context *ctx, const conv_part *a) {
  const strips s = make_strips(ctx, a);
  return slots_bytes(ctx, strip_tasks(&s), strip_work(&s), strip_bytes(&s));
}

void depthwise_run(const kernel_context *ctx, const conv_part *a, char *scratch) {
  const strips s = make_strips(ctx, a);
  run_slots_in(ctx, strip_tasks(&s), strip_work(&s), strip_bytes(&s), run_strips, &s, scratch);
}
