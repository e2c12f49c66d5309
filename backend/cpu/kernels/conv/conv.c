/* Conv: per group a matrix product weight (outputs, patch) x patches (patch, batch * out), the
 * patches packed straight from the image; with one input channel per group (depthwise) a direct sum
 * over the kernel. A transposed convolution gathers: the outputs of one phase (their position
 * modulo the stride) are an ordinary convolution of stride 1 with every stride-th tap, backward. */
#include "backend/cpu/kernels/conv/conv.h"

#include <string.h>

#include "backend/cpu/kernels/conv/conv_amx_weight.h"
#include "backend/cpu/kernels/conv/conv_weight.h"
#include "backend/cpu/kernels/conv/depthwise.h"
#include "backend/cpu/kernels/conv/pointwise.h"
#include "backend/cpu/kernels/gemm/codes.h"
#include "backend/cpu/kernels/gemm/gemm.h"
#include "backend/cpu/kernels/gemm/pairs.h"
#include "backend/cpu/kernels/support/slots.h"
#include "backend/cpu/kernels/support/vec4.h"
#include "backend/cpu/kernels/support/vector.h"

enum { MULTIPLIES_PER_THREAD = 128 * 1024, MOST_SETS = 64 /* of taps that are packed */ };

/* The outputs of a transposed convolution whose position modulo the stride is `phase`: input i and
 * tap k meet at output i * stride - padding + k * dilation. */
static window phase_window(const conv_dim *d, int64_t phase) {
  int64_t shift = phase + d->padding;
  window w = {.first = phase, .step = d->stride, .tap_step = d->tap_step, .stride = 1};
  w.count = d->out > phase ? (d->out - phase - 1) / d->stride + 1 : 0;
  while (w.tap_first < d->kernel && (shift - w.tap_first * d->dilation) % d->stride != 0)
    w.tap_first++;
  if (w.tap_first == d->kernel) return w;
  w.taps = (d->kernel - 1 - w.tap_first) / w.tap_step + 1;
  w.origin = (shift - w.tap_first * d->dilation) / d->stride;
  w.dilation = -(w.tap_step * d->dilation / d->stride);
  return w;
}

/* Where output row (cell[0], cell[1]) begins in its plane. */
static int64_t output_row(const conv_part *a, const int64_t cell[]) {
  const window *d = a->d;
  int64_t z = d[0].first + cell[0] * d[0].step, y = d[1].first + cell[1] * d[1].step;
  return (z * a->p->dims[1].out + y) * a->p->dims[2].out + d[2].first;
}

/* Element of the weight of an output and an input channel, both counted within their group. */
static int64_t weight_at(const conv_part *a, int64_t group, int64_t output, int64_t channel,
                         const int64_t tap[]) {
  const conv_args *p = a->p;
  int64_t at = p->transposed ? (group * p->channels + channel) * p->outputs + output
                             : (group * p->outputs + output) * p->channels + channel;
  for (int i = 0; i < CONV_DIMS; i++)
    at = at * p->dims[i].kernel + a->d[i].tap_first + tap[i] * a->d[i].tap_step;
  return at;
}

static void add_bias(const conv_part *a, int64_t output, int64_t n, void *values) {
  const conv_args *p = a->p;
  row_block bias;
  if (!p->bias) return;
  load_row(a->c, p->type, element_at(p->bias, p->type, output), 1, 1, &bias);
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

bool conv_takes_tail(const conv_args *p) { return p->type == DTYPE_F32 && !p->transposed; }

/* ---------------------------------------------------------------- as a matrix product */

static void pack_weight(const void *user, int64_t group, int64_t lane, int64_t lanes, int64_t k,
                        int64_t kn, int64_t width, void *to) {
  const conv_part *a = user;
  const conv_args *p = a->p;
  int64_t taps = tap_count(a), patch = p->channels * taps, tap[CONV_DIMS] = {0};
  if (!p->transposed) {
    const void *from = element_at(p->weight, p->weight_type, weight_at(a, group, lane, 0, tap) + k);
    gemm_pack_strided(a->c, p->weight_type, from, patch, 1, lanes, kn, width, to);
    return;
  }
  for (int64_t i = k; i < k + kn; i++) {
    split_tap(a, i % taps, tap);
    const void *from =
        element_at(p->weight, p->weight_type, weight_at(a, group, lane, i / taps, tap));
    load_row(a->c, p->weight_type, from, kernel_size(p), lanes,
             (char *)to + (i - k) * width * (int64_t)compute_size(a->c));
  }
}

/* Words of pairs.h, of a kernel of one element. */
static void pack_pairs(const void *user, int64_t group, int64_t lane, int64_t lanes, int64_t word,
                       int64_t n, int64_t width, void *to) {
  const conv_args *p = ((const conv_part *)user)->p;
  const pairs_source rows = {
      p->weight_type, element_at(p->weight, p->weight_type, group * p->outputs * p->channels),
      p->channels, p->channels, 1};
  pairs_pack(&rows, lane, lanes, word, n, width, to);
}

/* Of a weight of codes, a row of them for each output. */
static void widen_weight(const void *user, int64_t group, int64_t row, int64_t rows, int64_t k,
                         int64_t kn, int64_t height, float *to) {
  const conv_part *a = user;
  const codes_product codes = {.panels = a->packed, .of = a->codes};
  codes_strips(&codes, group * a->p->outputs + row, rows, k, kn, height, to);
}

/* Every other float: 4 of 8 at a time, whose last is behind them. */
static void load_every_other(const float *from, int64_t n, float *to) {
  int64_t i = 0;
  for (; i + 4 < n; i += 4) {
    const vec4 a = vec4_load(from + 2 * i), b = vec4_load(from + 2 * i + 4);
    const vec4 even = {a[0], a[2], b[0], b[2]};
    memcpy(to + i, &even, sizeof even);
  }
  for (; i < n; i++) to[i] = from[2 * i];
}

/* Elements of x behind one another, or a stride apart, in the compute class. */
static inline void load_cells(const conv_part *a, int64_t from, int64_t n, char *to) {
  const conv_args *p = a->p;
  const void *x = element_at(p->x, p->type, from);
  if (p->type == DTYPE_F32 && a->d[2].stride == 1)
    memcpy(to, x, (size_t)n * sizeof(float));
  else if (p->type == DTYPE_F32 && a->d[2].stride == 2)
    load_every_other(x, n, (float *)(void *)to);
  else
    load_row(a->c, p->type, x, a->d[2].stride, n, to);
}

/* What a tap sees in neighbouring cells: in those in [first, stop) elements of a plane of x, from
 * `from` on; padding in the others. */
typedef struct sight {
  int64_t first, stop, from;
} sight;

static sight see_cells(const conv_part *a, const segment *s, const int64_t tap[]) {
  int64_t shift = input_at(&a->d[2], 0, tap[2]), begin = s->cell[2], end = begin + s->n;
  int64_t row = input_row(a, s->cell, tap), first = end, stop = end;
  if (row >= 0) valid_columns(a, shift, begin, end, &first, &stop);
  return (sight){first - begin, stop - begin,
                 row * a->p->dims[2].in + first * a->d[2].stride + shift};
}

/* Of a plane of x, n cells. */
static void gather_cells(const conv_part *a, const sight *s, int64_t n, int64_t plane, char *to) {
  int64_t size = (int64_t)compute_size(a->c), count = s->stop - s->first;
  if (count < n) memset(to, 0, (size_t)(n * size));
  if (count > 0) load_cells(a, plane * in_size(a->p) + s->from, count, to + s->first * size);
}

static void next_tap(const conv_part *a, int64_t tap[], int64_t *channel) {
  for (int d = CONV_DIMS - 1; d >= 0; d--) {
    if (++tap[d] < a->d[d].taps) return;
    tap[d] = 0;
  }
  ++*channel;
}

enum { MOST_LANES = 64 };

/* Rows [k, k + kn) of the patch matrix, of at most MOST_LANES cells of all images: tap by tap, as
 * each sees the same of all channels. */
static void gather_patches(const conv_part *a, int64_t group, int64_t cell, int64_t cells,
                           int64_t k, int64_t kn, int64_t width, char *to) {
  segment segments[MOST_LANES];
  sight seen[MOST_LANES];
  const conv_args *p = a->p;
  int64_t size = (int64_t)compute_size(a->c), taps = tap_count(a), tap[CONV_DIMS];
  int64_t channel = k / taps;
  int count = find_segments(a, cell, cells, segments);
  split_tap(a, k % taps, tap);
  for (int64_t first = 0; first < kn && first < taps; first++, next_tap(a, tap, &channel)) {
    for (int s = 0; s < count; s++) seen[s] = see_cells(a, &segments[s], tap);
    for (int64_t row = first, c = channel; row < kn; row += taps, c++) {
      char *at = to + row * width * size;
      for (int s = 0; s < count; at += segments[s++].n * size) {
        int64_t plane = (segments[s].image * p->groups + group) * p->channels + c;
        gather_cells(a, &seen[s], segments[s].n, plane, at);
      }
    }
  }
}

static void pack_patches(const void *user, int64_t group, int64_t lane, int64_t lanes, int64_t k,
                         int64_t kn, int64_t width, void *to) {
  const conv_part *a = user;
  char *at = to;
  for (int64_t n; lanes > 0; lane += n, lanes -= n, at += n * (int64_t)compute_size(a->c)) {
    n = lanes < MOST_LANES ? lanes : MOST_LANES;
    gather_patches(a, group, lane, n, k, kn, width, at);
  }
}

/* Cells [at, at + n) of output plane `plane`. */
static void store_cells(const conv_part *a, int64_t plane, int64_t at, int64_t n,
                        const char *values) {
  const conv_args *p = a->p;
  int64_t cell[CONV_DIMS], step = a->d[2].step;
  if (!p->transposed) { /* all cells of a plane lie behind one another */
    store_row(a->c, p->type, element_at(p->out, p->type, plane * out_size(p) + at), 1, n, values);
    return;
  }
  while (n > 0) {
    split_cell(a, at, cell);
    int64_t left = a->d[2].count - cell[2], m = left < n ? left : n;
    int64_t to = plane * out_size(p) + output_row(a, cell) + cell[2] * step;
    store_row(a->c, p->type, element_at(p->out, p->type, to), step, m, values);
    values += m * (int64_t)compute_size(a->c);
    at += m;
    n -= m;
  }
}

/* Those cells with what follows their sums. */
static void finish_cells(const conv_part *a, int64_t output, int64_t plane, int64_t at, int64_t n,
                         char *values) {
  const conv_args *p = a->p;
  if (!conv_takes_tail(p)) {
    add_bias(a, output, n, values);
    store_cells(a, plane, at, n, values);
    return;
  }
  const float bias = p->bias ? ((const float *)p->bias)[output] : -0.0F;
  const int64_t at_out = plane * out_size(p) + at;
  float *to = (float *)p->out + at_out;
  conv_tail_row(&p->tail, bias, at_out, n, (float *)(void *)values, to);
  steps_in_place(&p->steps, to, at_out, n, 1, 0);
}

static void store_outputs(const void *user, int64_t group, int64_t row, int64_t column, int64_t n,
                          void *values) {
  const conv_part *a = user;
  int64_t output = group * a->p->outputs + row, cells = cell_count(a);
  char *from = values;
  while (n > 0) {
    int64_t image = column / cells, at = column % cells, m = cells - at < n ? cells - at : n;
    int64_t plane = image * a->p->groups * a->p->outputs + output;
    finish_cells(a, output, plane, at, m, from);
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
static void sum_taps(const conv_part *a, const char *plane, const char *weight,
                     const int64_t cell[], int64_t n, char *values) {
  int64_t size = (int64_t)compute_size(a->c), at = cell[2], tap[CONV_DIMS], first, stop;
  memset(values, 0, (size_t)(n * size));
  for (int64_t t = 0; t < tap_count(a); t++) {
    split_tap(a, t, tap);
    int64_t row = input_row(a, cell, tap), shift = input_at(&a->d[2], 0, tap[2]);
    if (row < 0) continue;
    valid_columns(a, shift, at, at + n, &first, &stop);
    int64_t from = row * a->p->dims[2].in + first * a->d[2].stride + shift;
    if (stop > first)
      add_scaled(a->c, stop - first, weight + weight_at(a, 0, 0, 0, tap) * size,
                 plane + from * size, a->d[2].stride, values + (first - at) * size);
  }
}

static void find_taps(const conv_part *a, const float *weight, plane_taps *p) {
  int64_t tap[CONV_DIMS];
  plane_taps_init(a, p);
  for (int64_t t = 0; t < tap_count(a); t++) {
    split_tap(a, t, tap);
    p->weight[t] = weight[weight_at(a, 0, 0, 0, tap)];
  }
}

static size_t plane_bytes(const conv_part *a) {
  return (size_t)(in_size(a->p) + kernel_size(a->p)) * compute_size(a->c);
}

/* One output plane. */
static void run_plane(const void *user, int64_t task, char *scratch) {
  const conv_part *a = user;
  const conv_args *p = a->p;
  int64_t outputs = p->groups * p->outputs, image = task / outputs, output = task % outputs;
  int64_t channel = output / p->outputs, in = in_size(p), kernel = kernel_size(p);
  char *weight = scratch, *plane = scratch + kernel * (int64_t)compute_size(a->c);
  load_row(a->c, p->weight_type, element_at(p->weight, p->weight_type, output * kernel), 1, kernel,
           weight);
  const void *from = element_at(p->x, p->type, (image * p->groups + channel) * in);
  bool in_place = p->type == DTYPE_F32 && a->c == COMPUTE_F32;
  if (!in_place) load_row(a->c, p->type, from, 1, in, plane);
  bool few = a->c == COMPUTE_F32 && has_few_taps(a);
  plane_taps taps;
  if (few) find_taps(a, (const float *)(const void *)weight, &taps);
  row_block values;
  int64_t cells = cell_count(a), cell[CONV_DIMS];
  for (int64_t at = 0, n; at < cells; at += n) {
    split_cell(a, at, cell);
    n = a->d[2].count - cell[2] < ROW_BLOCK ? a->d[2].count - cell[2] : ROW_BLOCK;
    if (few)
      plane_taps_sum(a, &taps, (const float *)(in_place ? from : plane), cell, n, values.f32);
    else
      sum_taps(a, in_place ? from : plane, weight, cell, n, (char *)&values);
    finish_cells(a, output, task, at, n, (char *)&values);
  }
}

/* ---------------------------------------------------------------- the kernel */

/* 1 in a program whose convolutions have no groups: kernels for those are not linked. */
#ifndef KERNEL_WHOLE
#define KERNEL_WHOLE 0
#endif
bool conv_is_depthwise(const conv_args *p) {
  return !KERNEL_WHOLE && p->groups > 1 && p->channels == 1;
}

static int64_t plane_count(const conv_args *p) { return p->images * p->groups * p->outputs; }

static int64_t plane_work(const conv_part *a) {
  return plane_count(a->p) * cell_count(a) * tap_count(a) / MULTIPLIES_PER_THREAD;
}

static kgemm gemm_of(const conv_part *a) {
  const conv_args *p = a->p;
  if (conv_is_rounded(p))
    return (kgemm){.c = COMPUTE_F32,
                   .batch = p->groups,
                   .m = p->outputs,
                   .n = p->images * cell_count(a),
                   .k = pairs_of(p->channels),
                   .pack_a = pack_pairs,
                   .user = a,
                   .packed_a = a->packed,
                   .a_is_packed = true,
                   .a_type = DTYPE_F32,
                   .kernel = pairs_kernel()};
  return (kgemm){.c = a->c,
                 .batch = p->groups,
                 .m = p->outputs,
                 .n = p->images * cell_count(a),
                 .k = p->channels * tap_count(a),
                 .pack_a = pack_weight,
                 .pack_b = pack_patches,
                 .store = store_outputs,
                 .user = a,
                 .packed_a = a->packed,
                 .a_is_packed = p->is_packed,
                 .strips_a = is_encoded(&p->encoding) ? widen_weight : NULL,
                 .a_type = p->weight_type,
                 .cut = p->cut};
}

static size_t plane_slots_bytes(const kernel_context *ctx, const conv_part *a) {
  return slots_bytes(ctx, plane_count(a->p), plane_work(a), plane_bytes(a));
}
static void run_planes(const kernel_context *ctx, const conv_part *a, char *memory) {
  run_slots_in(ctx, plane_count(a->p), plane_work(a), plane_bytes(a), run_plane, a, memory);
}

static size_t product_bytes(const kernel_context *ctx, const conv_part *a) {
  const kgemm g = gemm_of(a);
  return gemm_bytes(ctx, &g);
}
static void run_product(const kernel_context *ctx, const conv_part *a, char *memory) {
  const kgemm g = gemm_of(a);
  gemm_run(ctx, &g, memory);
}

/* Planes that are narrower than this processor's tiles are multiplied as patches: a program that
 * was written out may run on another processor than it was recorded on. */
static size_t pointwise_way_bytes(const kernel_context *ctx, const conv_part *a) {
  const kgemm g = gemm_of(a);
  return pointwise_fills_a_tile(a) ? pointwise_bytes(ctx, a, &g) : product_bytes(ctx, a);
}
static void run_pointwise(const kernel_context *ctx, const conv_part *a, char *memory) {
  const kgemm g = gemm_of(a);
  if (pointwise_fills_a_tile(a))
    pointwise_run(ctx, a, &g, memory);
  else
    run_product(ctx, a, memory);
}

typedef struct way_functions {
  size_t (*bytes)(const kernel_context *ctx, const conv_part *a);
  void (*run)(const kernel_context *ctx, const conv_part *a, char *memory);
} way_functions;
static const way_functions ways[] = {[CONV_BY_PRODUCT] = {product_bytes, run_product},
                                     [CONV_BY_POINTWISE] = {pointwise_way_bytes, run_pointwise},
#if !KERNEL_WHOLE
                                     [CONV_BY_STRIPS] = {depthwise_bytes, depthwise_run},
                                     [CONV_BY_PLANES] = {plane_slots_bytes, run_planes}
#endif
};

static size_t part_bytes(const kernel_context *ctx, const conv_part *a) {
  return ways[a->p->way].bytes(ctx, a);
}

static void run_part(const kernel_context *ctx, const conv_part *a, char *memory) {
  if (cell_count(a) > 0) ways[a->p->way].run(ctx, a, memory);
}

static int64_t part_count(const conv_args *p) {
  return p->dims[0].phases * p->dims[1].phases * p->dims[2].phases;
}

/* The taps that outputs of one phase see are every tap_step-th: there are as many such sets. */
static int64_t sets_along(const conv_dim *d) {
  return d->tap_step < d->kernel ? d->tap_step : d->kernel;
}
static int64_t set_count(const conv_args *p) {
  return sets_along(&p->dims[0]) * sets_along(&p->dims[1]) * sets_along(&p->dims[2]);
}

/* A convolution by set i of the weight's taps alone; of one that is not transposed by all. */
static conv_part make_set(const conv_args *p, int64_t i) {
  conv_part a = {.p = p, .c = compute_class_of(p->type)};
  int64_t first[CONV_DIMS];
  split_index(i, sets_along(&p->dims[1]), sets_along(&p->dims[2]), first);
  for (int d = 0; d < CONV_DIMS; d++) {
    const conv_dim *k = &p->dims[d];
    a.d[d] = (window){.taps = k->kernel > 0 ? (k->kernel - 1 - first[d]) / k->tap_step + 1 : 0,
                      .tap_first = first[d],
                      .tap_step = k->tap_step};
  }
  return a;
}

static size_t set_bytes(const conv_args *p, int64_t i) {
  const conv_part a = make_set(p, i);
  const kgemm g = gemm_of(&a);
  return gemm_packed_bytes(&g);
}

/* Where the taps of a part begin in a packed weight: the sets lie one behind the other. */
static const void *packed_taps(const conv_part *a) {
  const conv_args *p = a->p;
  const char *at = p->packed;
  int64_t set = 0;
  for (int d = 0; d < CONV_DIMS; d++) {
    if (a->d[d].taps == 0) return at;
    set = set * sets_along(&p->dims[d]) + a->d[d].tap_first;
  }
  for (int64_t i = 0; at && i < set; i++) at += set_bytes(p, i);
  return at;
}

static conv_part make_part(const conv_args *p, int64_t i) {
  conv_part a = {.p = p, .c = compute_class_of(p->type)};
  int64_t phase[CONV_DIMS];
  split_index(i, p->dims[1].phases, p->dims[2].phases, phase);
  for (int d = 0; d < CONV_DIMS; d++)
    a.d[d] = p->transposed ? phase_window(&p->dims[d], phase[d]) : whole_window(&p->dims[d]);
  if (p->is_packed) a.packed = packed_taps(&a);
  if (p->is_packed && is_encoded(&p->encoding))
    (void)code_panels_of(&p->encoding, conv_weight_row(p), &a.codes);
  return a;
}

/* ---------------------------------------------------------------- all parts */

/* Of the part that needs the most, as they follow each other, behind a decoded weight. */
static size_t conv_scratch(const kernel_context *ctx, const void *args) {
  const conv_args p = conv_decodes(args) ? conv_decoded(args, NULL) : *(const conv_args *)args;
  size_t most = 0;
  for (int64_t i = 0; i < part_count(&p); i++) {
    const conv_part a = make_part(&p, i);
    size_t bytes = part_bytes(ctx, &a);
    if (bytes > most) most = bytes;
  }
  return conv_decoded_bytes(args) + most;
}

static bool conv(const kernel_context *ctx, const void *args) {
  conv_args p = *(const conv_args *)args;
  size_t bytes = conv_scratch(ctx, args), weight = conv_decoded_bytes(args);
  char *memory = bytes > 0 ? ctx->scratch(ctx->pool, bytes) : NULL;
  if (bytes > 0 && !memory) return false;
  if (conv_decodes(args)) {
    conv_decode(ctx, args, memory);
    p = conv_decoded(args, memory);
  }
  for (int64_t i = 0; i < part_count(&p); i++) {
    const conv_part a = make_part(&p, i);
    run_part(ctx, &a, weight > 0 ? memory + weight : memory);
  }
  return true;
}

const kernel_desc kernel_conv = {
    .name = "conv",
    .run = conv,
    .scratch = conv_scratch,
    .args_size = sizeof(conv_args),
    .steps = OPERAND(conv_args, steps),
    .operands = {OPERAND(conv_args, x), OPERAND(conv_args, weight), OPERAND(conv_args, bias),
                 OPERAND(conv_args, packed), OPERAND(conv_args, out),
                 OPERAND(conv_args, tail.added), OPERAND(conv_args, steps.inputs[1]),
                 OPERAND(conv_args, steps.inputs[2])}};

/* ---------------------------------------------------------------- packing */

/* The one row of codes of an output, in panels. */
static bool panels_of(const conv_args *p, code_panels *of) {
  return code_panels_of(&p->encoding, conv_weight_row(p), of);
}

bool conv_packs(const conv_args *p) {
  code_panels of;
  if (conv_is_depthwise(p)) return false;
  if (is_encoded(&p->encoding))
    return !p->transposed && conv_weight_row(p) > 0 && panels_of(p, &of);
  return set_count(p) <= MOST_SETS;
}

bool conv_takes_way(const conv_args *args, conv_way way) {
  const conv_args decoded = conv_decodes(args) ? conv_decoded(args, NULL) : *args, *p = &decoded;
  const conv_part a = make_part(p, 0);
  if (way == CONV_BY_POINTWISE) return !conv_is_depthwise(p) && pointwise_fits(&a);
  if (way == CONV_BY_PRODUCT) return !conv_is_depthwise(p);
  return conv_is_depthwise(p) && (way == CONV_BY_PLANES || depthwise_fits(&a));
}

bool conv_rounds(const conv_args *p) {
  conv_args rounded = *p;
  rounded.is_packed = rounded.rounds = true;
  const conv_part a = make_part(&rounded, 0);
  return conv_packs(p) && pointwise_fits(&a) && pointwise_fills_a_tile(&a);
}

static size_t pack_bytes(const conv_args *p) {
  code_panels of;
  if (is_encoded(&p->encoding))
    return panels_of(p, &of) ? codes_panels_bytes(&of, conv_weight_rows(p)) : 0;
  if (conv_is_tiled(p)) return conv_amx_packed_bytes(p);
  size_t bytes = 0;
  for (int64_t i = 0; i < set_count(p); i++) bytes += set_bytes(p, i);
  return bytes;
}

static size_t pack_scratch(const kernel_context *ctx, const void *args) {
  (void)ctx;
  return kernel_scratch_size(pack_bytes(args));
}

static bool pack(const kernel_context *ctx, const void *args) {
  const conv_args *p = args;
  char *to = ctx->scratch(ctx->pool, pack_bytes(p));
  if (to && is_encoded(&p->encoding)) {
    codes_pack(ctx, &p->encoding, p->weight, conv_weight_rows(p), conv_weight_row(p), to);
    return true;
  }
  if (to && conv_is_tiled(p)) {
    conv_amx_pack(ctx, p, to);
    return true;
  }
  for (int64_t i = 0; to && i < set_count(p); to += set_bytes(p, i++)) {
    const conv_part a = make_set(p, i);
    const kgemm g = gemm_of(&a);
    gemm_pack_a(ctx, &g, to);
  }
  return to != NULL;
}

const kernel_desc kernel_conv_pack = {.name = "conv_pack",
                                      .run = pack,
                                      .scratch = pack_scratch,
                                      .args_size = sizeof(conv_args),
                                      .operands = {OPERAND(conv_args, weight)}};
