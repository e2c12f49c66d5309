/* Conv: per group a matrix product weight (outputs, patch) x patches (patch, batch * out), the
 * patches packed straight from the image; with one input channel per group (depthwise) a direct sum
 * over the kernel. A transposed convolution gathers: the outputs of one phase (their position
 * modulo the stride) are an ordinary convolution of stride 1 with every stride-th tap, backward. */
#include "backend/cpu/kernels/conv.h"

#include <string.h>

#include "backend/cpu/kernels/gemm.h"
#include "backend/cpu/kernels/slots.h"
#include "backend/cpu/kernels/vector.h"

enum { MULTIPLIES_PER_THREAD = 128 * 1024 };

/* One dimension: output first + i * step, i < count, sums over t < taps the input at
 * origin + i * stride + t * dilation times the weight at tap_first + t * tap_step. */
typedef struct kconv_dim {
  int64_t count, first, step;
  int64_t taps, tap_first, tap_step;
  int64_t origin, stride, dilation;
} kconv_dim;

typedef struct conv_part {
  const conv *p;
  compute_class c; /* what sums are computed in */
  kconv_dim d[CONV_DIMS];
} conv_part;

static int64_t volume(const int64_t *sizes) { return sizes[0] * sizes[1] * sizes[2]; }
static int64_t cell_count(const conv_part *a) {
  return a->d[0].count * a->d[1].count * a->d[2].count;
}
static int64_t tap_count(const conv_part *a) { return a->d[0].taps * a->d[1].taps * a->d[2].taps; }

static kconv_dim whole_dim(const conv *p, int i) {
  return (kconv_dim){.count = p->out[i],
                     .step = 1,
                     .taps = p->kernel[i],
                     .tap_step = 1,
                     .origin = -p->padding[i],
                     .stride = p->stride[i],
                     .dilation = p->dilation[i]};
}

static int64_t common_divisor(int64_t a, int64_t b) {
  return b == 0 ? a : common_divisor(b, a % b);
}

/* The outputs of a transposed convolution whose position modulo the stride is `phase`: input i and
 * tap k meet at output i * stride - padding + k * dilation. */
static kconv_dim phase_dim(const conv *p, int i, int64_t phase) {
  int64_t s = p->stride[i], d = p->dilation[i], shift = phase + p->padding[i];
  kconv_dim v = {.first = phase, .step = s, .tap_step = s / common_divisor(s, d), .stride = 1};
  v.count = p->out[i] > phase ? (p->out[i] - phase - 1) / s + 1 : 0;
  while (v.tap_first < p->kernel[i] && (shift - v.tap_first * d) % s != 0) v.tap_first++;
  if (v.tap_first == p->kernel[i]) return v;
  v.taps = (p->kernel[i] - 1 - v.tap_first) / v.tap_step + 1;
  v.origin = (shift - v.tap_first * d) / s;
  v.dilation = -(v.tap_step * d / s);
  return v;
}

/* The i-th position of the sizes in row-major order. */
static void split_index(int64_t i, int64_t rows, int64_t columns, int64_t at[CONV_DIMS]) {
  at[2] = i % columns;
  at[1] = i / columns % rows;
  at[0] = i / columns / rows;
}

static void split_cell(const conv_part *a, int64_t i, int64_t at[CONV_DIMS]) {
  split_index(i, a->d[1].count, a->d[2].count, at);
}

static void split_tap(const conv_part *a, int64_t t, int64_t at[CONV_DIMS]) {
  split_index(t, a->d[1].taps, a->d[2].taps, at);
}

static int64_t input_at(const kconv_dim *d, int64_t i, int64_t tap) {
  return d->origin + i * d->stride + tap * d->dilation;
}

/* The row of the input plane that holds the taps `tap` of the output row of `cell`; -1: padding. */
static int64_t input_row(const conv_part *a, const int64_t cell[], const int64_t tap[]) {
  const int64_t *in = a->p->in;
  int64_t z = input_at(&a->d[0], cell[0], tap[0]), y = input_at(&a->d[1], cell[1], tap[1]);
  return z < 0 || z >= in[0] || y < 0 || y >= in[1] ? -1 : z * in[1] + y;
}

/* Where output row (cell[0], cell[1]) begins in its plane. */
static int64_t output_row(const conv_part *a, const int64_t cell[]) {
  const kconv_dim *d = a->d;
  int64_t z = d[0].first + cell[0] * d[0].step, y = d[1].first + cell[1] * d[1].step;
  return (z * a->p->out[1] + y) * a->p->out[2] + d[2].first;
}

/* Element of the weight of an output and an input channel, both counted within their group. */
static int64_t weight_at(const conv_part *a, int64_t group, int64_t output, int64_t channel,
                         const int64_t tap[]) {
  const conv *p = a->p;
  int64_t outputs = p->outputs / p->groups, channels = p->channels / p->groups, at;
  if (p->transposed)
    at = (group * channels + channel) * outputs + output;
  else
    at = (group * outputs + output) * channels + channel;
  for (int i = 0; i < CONV_DIMS; i++)
    at = at * p->kernel[i] + a->d[i].tap_first + tap[i] * a->d[i].tap_step;
  return at;
}

/* The columns [*first, *stop) within [from, to) whose input column i * stride + shift lies in the
 * image. */
static void valid_columns(const conv_part *a, int64_t shift, int64_t from, int64_t to,
                          int64_t *first, int64_t *stop) {
  int64_t stride = a->d[2].stride, last = a->p->in[2] - 1 - shift;
  int64_t low = shift < 0 ? (-shift + stride - 1) / stride : 0,
          high = last < 0 ? 0 : last / stride + 1;
  *first = low < from ? from : low > to ? to : low;
  *stop = high > to ? to : high < *first ? *first : high;
}

static void add_bias(const conv_part *a, int64_t output, int64_t n, void *values) {
  const conv *p = a->p;
  row_block bias;
  if (!p->bias) return;
  load_row(a->c, p->bias_type, element_at(p->bias, p->bias_type, output), 1, 1, &bias);
  float *f = values;
  double *d = values;
  uint64_t *k = values;
  if (a->c == COMPUTE_F32)
    for (int64_t i = 0; i < n; i++) f[i] += bias.f32[0];
  if (a->c == COMPUTE_F64)
    for (int64_t i = 0; i < n; i++) d[i] += bias.f64[0];
  if (a->c == COMPUTE_I64)
    for (int64_t i = 0; i < n; i++) k[i] += (uint64_t)bias.i64[0];
}

/* ---------------------------------------------------------------- as a matrix product */

static void pack_weight(const void *user, int64_t group, int64_t lane, int64_t lanes, int64_t k,
                        int64_t kn, int64_t width, void *to) {
  const conv_part *a = user;
  const conv *p = a->p;
  int64_t taps = tap_count(a), patch = p->channels / p->groups * taps, tap[CONV_DIMS] = {0};
  if (!p->transposed) {
    const void *from = element_at(p->weight, p->weight_type, weight_at(a, group, lane, 0, tap) + k);
    gemm_pack_strided(a->c, p->weight_type, from, patch, 1, lanes, kn, width, to);
    return;
  }
  for (int64_t i = k; i < k + kn; i++) {
    split_tap(a, i % taps, tap);
    const void *from =
        element_at(p->weight, p->weight_type, weight_at(a, group, lane, i / taps, tap));
    load_row(a->c, p->weight_type, from, volume(p->kernel), lanes,
             (char *)to + (i - k) * width * (int64_t)compute_size(a->c));
  }
}

/* One row of the patch matrix: element k of the patches of cells [at, at + n) of all images. */
static void gather_patches(const conv_part *a, int64_t group, int64_t k, int64_t at, int64_t n,
                           char *to) {
  const conv *p = a->p;
  int64_t size = (int64_t)compute_size(a->c), tap[CONV_DIMS], cell[CONV_DIMS];
  int64_t channel = k / tap_count(a) + group * (p->channels / p->groups);
  split_tap(a, k % tap_count(a), tap);
  int64_t shift = input_at(&a->d[2], 0, tap[2]);
  while (n > 0) {
    split_cell(a, at % cell_count(a), cell);
    int64_t image = at / cell_count(a), begin = cell[2], left = a->d[2].count - begin;
    int64_t m = left < n ? left : n, row = input_row(a, cell, tap);
    int64_t first = begin + m, stop = begin + m;
    if (row >= 0) valid_columns(a, shift, begin, begin + m, &first, &stop);
    memset(to, 0, (size_t)((first - begin) * size));
    int64_t from = ((image * p->channels + channel) * p->in[0] * p->in[1] + row) * p->in[2] +
                   first * a->d[2].stride + shift;
    if (stop > first)
      load_row(a->c, p->type, element_at(p->x, p->type, from), a->d[2].stride, stop - first,
               to + (first - begin) * size);
    memset(to + (stop - begin) * size, 0, (size_t)((begin + m - stop) * size));
    to += m * size;
    at += m;
    n -= m;
  }
}

static void pack_patches(const void *user, int64_t group, int64_t lane, int64_t lanes, int64_t k,
                         int64_t kn, int64_t width, void *to) {
  const conv_part *a = user;
  for (int64_t i = 0; i < kn; i++)
    gather_patches(a, group, k + i, lane, lanes,
                   (char *)to + i * width * (int64_t)compute_size(a->c));
}

/* Cells [at, at + n) of output plane `plane`. */
static void store_cells(const conv_part *a, int64_t plane, int64_t at, int64_t n,
                        const char *values) {
  const conv *p = a->p;
  int64_t cell[CONV_DIMS], step = a->d[2].step;
  while (n > 0) {
    split_cell(a, at, cell);
    int64_t left = p->transposed ? a->d[2].count - cell[2] : n, m = left < n ? left : n;
    int64_t to = plane * volume(p->out) + output_row(a, cell) + cell[2] * step;
    store_row(a->c, p->out_type, element_at(p->y, p->out_type, to), step, m, values);
    values += m * (int64_t)compute_size(a->c);
    at += m;
    n -= m;
  }
}

static void store_outputs(const void *user, int64_t group, int64_t row, int64_t column, int64_t n,
                          void *values) {
  const conv_part *a = user;
  int64_t output = group * (a->p->outputs / a->p->groups) + row, cells = cell_count(a);
  add_bias(a, output, n, values);
  const char *from = values;
  while (n > 0) {
    int64_t image = column / cells, at = column % cells, m = cells - at < n ? cells - at : n;
    store_cells(a, image * a->p->outputs + output, at, m, from);
    from += m * (int64_t)compute_size(a->c);
    column += m;
    n -= m;
  }
}

/* ---------------------------------------------------------------- depthwise */

/* values[i] += weight * x[i * stride], all in class c. */
static void add_scaled(compute_class c, int64_t n, const void *weight, const void *from,
                       int64_t stride, void *values) {
  float *f = values;
  double *d = values;
  uint64_t *k = values;
  const float *xf = from, *wf = weight;
  const double *xd = from, *wd = weight;
  const uint64_t *xk = from, *wk = weight;
  if (c == COMPUTE_F32 && stride == 1) {
    axpy_f32(n, *wf, xf, f);
  } else if (c == COMPUTE_F32) {
    for (int64_t i = 0; i < n; i++) f[i] += *wf * xf[i * stride];
  } else if (c == COMPUTE_F64) {
    for (int64_t i = 0; i < n; i++) d[i] += *wd * xd[i * stride];
  } else {
    for (int64_t i = 0; i < n; i++) k[i] += *wk * xk[i * stride];
  }
}

/* n cells of a row from `cell` on. plane: (in), weight: (kernel), in the compute class. */
static void sum_row(const conv_part *a, const char *plane, const char *weight, const int64_t cell[],
                    int64_t n, char *values) {
  int64_t size = (int64_t)compute_size(a->c), at = cell[2], tap[CONV_DIMS], first, stop;
  memset(values, 0, (size_t)(n * size));
  for (int64_t t = 0; t < tap_count(a); t++) {
    split_tap(a, t, tap);
    int64_t row = input_row(a, cell, tap), shift = input_at(&a->d[2], 0, tap[2]);
    if (row < 0) continue;
    valid_columns(a, shift, at, at + n, &first, &stop);
    int64_t from = row * a->p->in[2] + first * a->d[2].stride + shift;
    if (stop > first)
      add_scaled(a->c, stop - first, weight + weight_at(a, 0, 0, 0, tap) * size,
                 plane + from * size, a->d[2].stride, values + (first - at) * size);
  }
}

static size_t scratch_size(const conv_part *a) {
  return (size_t)(volume(a->p->in) + volume(a->p->kernel)) * compute_size(a->c);
}

/* One output plane. */
static void run_plane(const void *user, int64_t task, char *scratch) {
  const conv_part *a = user;
  const conv *p = a->p;
  int64_t image = task / p->outputs, output = task % p->outputs, kernel = volume(p->kernel);
  int64_t channel = output / (p->outputs / p->groups), in = volume(p->in);
  char *weight = scratch, *plane = scratch + kernel * (int64_t)compute_size(a->c);
  load_row(a->c, p->weight_type, element_at(p->weight, p->weight_type, output * kernel), 1, kernel,
           weight);
  const void *from = element_at(p->x, p->type, (image * p->channels + channel) * in);
  bool in_place = p->type == DTYPE_F32 && a->c == COMPUTE_F32;
  if (!in_place) load_row(a->c, p->type, from, 1, in, plane);
  row_block values;
  int64_t cells = cell_count(a), cell[CONV_DIMS];
  for (int64_t at = 0, n; at < cells; at += n) {
    split_cell(a, at, cell);
    n = a->d[2].count - cell[2] < ROW_BLOCK ? a->d[2].count - cell[2] : ROW_BLOCK;
    sum_row(a, in_place ? from : plane, weight, cell, n, (char *)&values);
    add_bias(a, output, n, &values);
    store_cells(a, task, at, n, (const char *)&values);
  }
}

static bool run_part(const kernel_context *ctx, const conv_part *a) {
  const conv *p = a->p;
  int64_t columns = p->batch * cell_count(a), patch = p->channels / p->groups * tap_count(a);
  if (columns * p->outputs == 0) return true;
  if (p->groups > 1 && p->channels == p->groups)
    return run_slots(ctx, p->batch * p->outputs,
                     columns * p->outputs * patch / MULTIPLIES_PER_THREAD, scratch_size(a),
                     run_plane, a);
  kgemm g = {.c = a->c,
             .batch = p->groups,
             .m = p->outputs / p->groups,
             .n = columns,
             .k = patch,
             .pack_a = pack_weight,
             .pack_b = pack_patches,
             .store = store_outputs,
             .user = a};
  return gemm_run(ctx, &g);
}

bool kernel_conv(const kernel_context *ctx, const conv *p) {
  conv_part a = {.p = p, .c = compute_class_of(p->out_type)};
  for (int i = 0; i < CONV_DIMS; i++) a.d[i] = whole_dim(p, i);
  if (!p->transposed) return run_part(ctx, &a);
  int64_t phases[CONV_DIMS], phase[CONV_DIMS];
  for (int i = 0; i < CONV_DIMS; i++)
    phases[i] = p->stride[i] < p->out[i] ? p->stride[i] : p->out[i];
  for (int64_t k = 0; k < volume(phases); k++) {
    split_index(k, phases[1], phases[2], phase);
    for (int i = 0; i < CONV_DIMS; i++) a.d[i] = phase_dim(p, i, phase[i]);
    if (!run_part(ctx, &a)) return false;
  }
  return true;
}
