/* Convolution in four ways (conv_way). Per group, out (outputs, images * cells) is weight (outputs,
 * patch) times patches (patch, images * cells), packed straight from the image. With one input
 * channel per group (depthwise) it is a direct sum over the taps. A transposed convolution gathers:
 * the outputs of one phase (their position modulo the stride) are an ordinary convolution of stride
 * 1 by every stride-th tap, in reverse. The packed weight is gemm.h's packed a for each set of
 * taps, or code panels. The outer loop is over phases. */
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

enum { MULTIPLIES_PER_THREAD = 128 * 1024, MAX_SETS = 64 /* sets of taps that are packed */ };

/* Returns the index in its plane of the first element of output row (cell[0], cell[1]). */
static int64_t output_row(const conv_phase *phase, const int64_t cell[]) {
  const window *window = phase->d;
  int64_t z = window[0].first + cell[0] * window[0].step,
          y = window[1].first + cell[1] * window[1].step;
  return (z * phase->args->dims[1].out + y) * phase->args->dims[2].out + window[2].first;
}

/* Returns the weight's element of an output and an input channel, numbered within their group. */
static int64_t kernel_conv_weight_at(const conv_phase *phase, int64_t group, int64_t output,
                                     int64_t channel, const int64_t tap[]) {
  const conv_args *args = phase->args;
  int64_t at = args->transposed ? (group * args->channels + channel) * args->outputs + output
                                : (group * args->outputs + output) * args->channels + channel;
  for (int i = 0; i < CONV_DIMS; i++)
    at = at * args->dims[i].kernel + phase->d[i].tap_first + tap[i] * phase->d[i].tap_step;
  return at;
}

static void kernel_conv_add_bias(const conv_phase *phase, int64_t output, int64_t n, void *values) {
  const conv_args *args = phase->args;
  row_block bias;
  if (!args->bias) return;
  load_row(phase->c, args->type, element_at(args->bias, args->type, output), 1, 1, &bias);
  float *f = values;
  double *d = values;
  uint64_t *k = values;
  if (phase->c == COMPUTE_F32)
    for (int64_t i = 0; i < n; i++) f[i] += bias.f32[0];
  if (phase->c == COMPUTE_F64)
    for (int64_t i = 0; i < n; i++) d[i] += bias.f64[0];
  if (phase->c == COMPUTE_I64)
    for (int64_t i = 0; i < n; i++) k[i] += (uint64_t)bias.i64[0];
}

bool conv_accepts_epilogue(const conv_args *args) {
  return args->type == DTYPE_F32 && !args->transposed;
}

/* ---------------------------------------------------------------- as a matrix product */

static void kernel_conv_pack_weight(const void *user, int64_t group, int64_t lane, int64_t lanes,
                                    int64_t k, int64_t kn, int64_t width, void *to) {
  const conv_phase *phase = user;
  const conv_args *args = phase->args;
  int64_t taps = tap_count(phase), patch = args->channels * taps, tap[CONV_DIMS] = {0};
  if (!args->transposed) {
    const void *from = element_at(args->weight, args->weight_type,
                                  kernel_conv_weight_at(phase, group, lane, 0, tap) + k);
    gemm_pack_strided(phase->c, args->weight_type, from, patch, 1, lanes, kn, width, to);
    return;
  }
  for (int64_t i = k; i < k + kn; i++) {
    split_tap(phase, i % taps, tap);
    const void *from = element_at(args->weight, args->weight_type,
                                  kernel_conv_weight_at(phase, group, lane, i / taps, tap));
    load_row(phase->c, args->weight_type, from, kernel_size(args), lanes,
             (char *)to + (i - k) * width * (int64_t)compute_size(phase->c));
  }
}

/* Packs words of pairs.h, for a kernel of one tap. */
static void kernel_conv_pack_pairs(const void *user, int64_t group, int64_t lane, int64_t lanes,
                                   int64_t word, int64_t n, int64_t width, void *to) {
  const conv_args *args = ((const conv_phase *)user)->args;
  const pairs_source rows = {
      args->weight_type,
      element_at(args->weight, args->weight_type, group * args->outputs * args->channels),
      args->channels, args->channels, 1};
  pairs_pack(&rows, lane, lanes, word, n, width, to);
}

/* Decodes strips of an encoded weight, which has a row for each output. */
static void widen_weight(const void *user, int64_t group, int64_t row, int64_t rows, int64_t k,
                         int64_t kn, int64_t height, float *to) {
  const conv_phase *phase = user;
  const codes_product codes = {.panels = phase->packed, .of = phase->codes};
  codes_strips(&codes, group * phase->args->outputs + row, rows, k, kn, height, to);
}

/* Loads every other float. A vector of 4 reads 8, so up to 4 at the end are loaded singly. */
static void load_every_other(const float *from, int64_t n, float *to) {
  int64_t i = 0;
  for (; i + 4 < n; i += 4) {
    const vec4 a = vec4_load(from + 2 * i), b = vec4_load(from + 2 * i + 4);
    const vec4 even = {a[0], a[2], b[0], b[2]};
    memcpy(to + i, &even, sizeof even);
  }
  for (; i < n; i++) to[i] = from[2 * i];
}

/* Loads elements of x that are contiguous or a stride apart, in the compute class. */
static inline void load_cells(const conv_phase *phase, int64_t from, int64_t n, char *to) {
  const conv_args *args = phase->args;
  const void *x = element_at(args->x, args->type, from);
  if (args->type == DTYPE_F32 && phase->d[2].stride == 1)
    memcpy(to, x, (size_t)n * sizeof(float));
  else if (args->type == DTYPE_F32 && phase->d[2].stride == 2)
    load_every_other(x, n, (float *)(void *)to);
  else
    load_row(phase->c, args->type, x, phase->d[2].stride, n, to);
}

/* The inputs that a tap reads for neighbouring cells. Cells [first, stop) read a plane of x, from
 * element `from` on. The others read padding. */
typedef struct tap_inputs {
  int64_t first, stop, from;
} tap_inputs;

static tap_inputs find_tap_inputs(const conv_phase *phase, const segment *segment,
                                  const int64_t tap[]) {
  int64_t shift = input_at(&phase->d[2], 0, tap[2]), begin = segment->cell[2],
          end = begin + segment->n;
  int64_t row = input_row(phase, segment->cell, tap), first = end, stop = end;
  if (row >= 0) valid_columns(phase, shift, begin, end, &first, &stop);
  return (tap_inputs){first - begin, stop - begin,
                      row * phase->args->dims[2].in + first * phase->d[2].stride + shift};
}

/* Loads the inputs that a tap reads from a plane of x for n cells. */
static void gather_cells(const conv_phase *phase, const tap_inputs *tap_inputs, int64_t n,
                         int64_t plane, char *to) {
  int64_t size = (int64_t)compute_size(phase->c), count = tap_inputs->stop - tap_inputs->first;
  if (count < n) memset(to, 0, (size_t)(n * size));
  if (count > 0)
    load_cells(phase, plane * in_size(phase->args) + tap_inputs->from, count,
               to + tap_inputs->first * size);
}

static void next_tap(const conv_phase *phase, int64_t tap[], int64_t *channel) {
  for (int d = CONV_DIMS - 1; d >= 0; d--) {
    if (++tap[d] < phase->d[d].taps) return;
    tap[d] = 0;
  }
  ++*channel;
}

enum { MAX_LANES = 64 };

/* Packs rows [k, k + kn) of the patch matrix for at most MAX_LANES cells of all images. Iterates
 * by tap, because a tap reads the same positions of all channels. */
static void gather_patches(const conv_phase *phase, int64_t group, int64_t cell, int64_t cells,
                           int64_t k, int64_t kn, int64_t width, char *to) {
  segment segments[MAX_LANES];
  tap_inputs seen[MAX_LANES];
  const conv_args *args = phase->args;
  int64_t size = (int64_t)compute_size(phase->c), taps = tap_count(phase), tap[CONV_DIMS];
  int64_t channel = k / taps;
  int count = find_segments(phase, cell, cells, segments);
  split_tap(phase, k % taps, tap);
  for (int64_t first = 0; first < kn && first < taps; first++, next_tap(phase, tap, &channel)) {
    for (int s = 0; s < count; s++) seen[s] = find_tap_inputs(phase, &segments[s], tap);
    for (int64_t row = first, c = channel; row < kn; row += taps, c++) {
      char *at = to + row * width * size;
      for (int s = 0; s < count; at += segments[s++].n * size) {
        int64_t plane = (segments[s].image * args->groups + group) * args->channels + c;
        gather_cells(phase, &seen[s], segments[s].n, plane, at);
      }
    }
  }
}

static void pack_patches(const void *user, int64_t group, int64_t lane, int64_t lanes, int64_t k,
                         int64_t kn, int64_t width, void *to) {
  const conv_phase *phase = user;
  char *at = to;
  for (int64_t n; lanes > 0; lane += n, lanes -= n, at += n * (int64_t)compute_size(phase->c)) {
    n = lanes < MAX_LANES ? lanes : MAX_LANES;
    gather_patches(phase, group, lane, n, k, kn, width, at);
  }
}

/* Stores cells [at, at + n) of output plane `plane`. */
static void kernel_conv_store_cells(const conv_phase *phase, int64_t plane, int64_t at, int64_t n,
                                    const char *values) {
  const conv_args *args = phase->args;
  int64_t cell[CONV_DIMS], step = phase->d[2].step;
  if (!args->transposed) { /* cells of a plane are contiguous */
    store_row(phase->c, args->type, element_at(args->out, args->type, plane * out_size(args) + at),
              1, n, values);
    return;
  }
  while (n > 0) {
    split_cell(phase, at, cell);
    int64_t left = phase->d[2].count - cell[2], m = left < n ? left : n;
    int64_t to = plane * out_size(args) + output_row(phase, cell) + cell[2] * step;
    store_row(phase->c, args->type, element_at(args->out, args->type, to), step, m, values);
    values += m * (int64_t)compute_size(phase->c);
    at += m;
    n -= m;
  }
}

/* Adds bias, epilogue and steps to cells [at, at + n) of a plane and stores them. */
static void finish_cells(const conv_phase *phase, int64_t output, int64_t plane, int64_t at,
                         int64_t n, char *values) {
  const conv_args *args = phase->args;
  if (!conv_accepts_epilogue(args)) {
    kernel_conv_add_bias(phase, output, n, values);
    kernel_conv_store_cells(phase, plane, at, n, values);
    return;
  }
  const float bias = args->bias ? ((const float *)args->bias)[output] : -0.0F;
  const int64_t at_out = plane * out_size(args) + at;
  float *to = (float *)args->out + at_out;
  conv_epilogue_row(&args->epilogue, bias, output, at_out, n, (float *)(void *)values, to);
  steps_in_place(&args->steps, to, at_out, n, 1, 0);
}

static void store_outputs(const void *user, int64_t group, int64_t row, int64_t column, int64_t n,
                          void *values) {
  const conv_phase *phase = user;
  int64_t output = group * phase->args->outputs + row, cells = cell_count(phase);
  char *from = values;
  while (n > 0) {
    int64_t image = column / cells, at = column % cells, m = cells - at < n ? cells - at : n;
    int64_t plane = image * phase->args->groups * phase->args->outputs + output;
    finish_cells(phase, output, plane, at, m, from);
    from += m * (int64_t)compute_size(phase->c);
    column += m;
    n -= m;
  }
}

/* ---------------------------------------------------------------- depthwise */

/* values[i] += weight * x[i * stride], all in class c. */
static void kernel_conv_add_scaled(compute_type c, int64_t n, const void *weight, const void *from,
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

/* Sums the taps of n cells of a row. plane: (in), weight: (kernel), in the compute class. */
static void sum_taps(const conv_phase *phase, const char *plane, const char *weight,
                     const int64_t cell[], int64_t n, char *values) {
  int64_t size = (int64_t)compute_size(phase->c), at = cell[2], tap[CONV_DIMS], first, stop;
  memset(values, 0, (size_t)(n * size));
  for (int64_t t = 0; t < tap_count(phase); t++) {
    split_tap(phase, t, tap);
    int64_t row = input_row(phase, cell, tap), shift = input_at(&phase->d[2], 0, tap[2]);
    if (row < 0) continue;
    valid_columns(phase, shift, at, at + n, &first, &stop);
    int64_t from = row * phase->args->dims[2].in + first * phase->d[2].stride + shift;
    if (stop > first)
      kernel_conv_add_scaled(phase->c, stop - first,
                             weight + kernel_conv_weight_at(phase, 0, 0, 0, tap) * size,
                             plane + from * size, phase->d[2].stride, values + (first - at) * size);
  }
}

static void kernel_conv_find_taps(const conv_phase *phase, const float *weight, plane_taps *taps) {
  int64_t tap[CONV_DIMS];
  plane_taps_init(phase, taps);
  for (int64_t t = 0; t < tap_count(phase); t++) {
    split_tap(phase, t, tap);
    taps->weight[t] = weight[kernel_conv_weight_at(phase, 0, 0, 0, tap)];
  }
}

static size_t kernel_conv_plane_bytes(const conv_phase *phase) {
  return (size_t)(in_size(phase->args) + kernel_size(phase->args)) * compute_size(phase->c);
}

/* Computes one output plane. */
static void kernel_conv_run_plane(const void *user, int64_t task, char *scratch) {
  const conv_phase *phase = user;
  const conv_args *args = phase->args;
  int64_t outputs = args->groups * args->outputs, image = task / outputs, output = task % outputs;
  int64_t channel = output / args->outputs, in = in_size(args), kernel = kernel_size(args);
  char *weight = scratch, *plane = scratch + kernel * (int64_t)compute_size(phase->c);
  load_row(phase->c, args->weight_type,
           element_at(args->weight, args->weight_type, output * kernel), 1, kernel, weight);
  const void *from = element_at(args->x, args->type, (image * args->groups + channel) * in);
  bool in_place = args->type == DTYPE_F32 && phase->c == COMPUTE_F32;
  if (!in_place) load_row(phase->c, args->type, from, 1, in, plane);
  bool few = phase->c == COMPUTE_F32 && has_few_taps(phase);
  plane_taps taps;
  if (few) kernel_conv_find_taps(phase, (const float *)(const void *)weight, &taps);
  row_block values;
  int64_t cells = cell_count(phase), cell[CONV_DIMS];
  for (int64_t at = 0, n; at < cells; at += n) {
    split_cell(phase, at, cell);
    n = phase->d[2].count - cell[2] < ROW_BLOCK ? phase->d[2].count - cell[2] : ROW_BLOCK;
    if (few)
      plane_taps_sum(phase, &taps, (const float *)(in_place ? from : plane), cell, n, values.f32);
    else
      sum_taps(phase, in_place ? from : plane, weight, cell, n, (char *)&values);
    finish_cells(phase, output, task, at, n, (char *)&values);
  }
}

/* ---------------------------------------------------------------- the kernel */

/* 1 in a compiled program without groups in convolutions, which does not link kernels for them. */
#ifndef KERNEL_UNGROUPED
#define KERNEL_UNGROUPED 0
#endif
bool conv_is_depthwise(const conv_args *args) {
  return !KERNEL_UNGROUPED && args->groups > 1 && args->channels == 1;
}

static int64_t plane_count(const conv_args *args) {
  return args->images * args->groups * args->outputs;
}

static int64_t plane_work(const conv_phase *phase) {
  return plane_count(phase->args) * cell_count(phase) * tap_count(phase) / MULTIPLIES_PER_THREAD;
}

static kgemm kernel_conv_gemm_of(const conv_phase *phase) {
  const conv_args *args = phase->args;
  if (conv_is_rounded(args))
    return (kgemm){.c = COMPUTE_F32,
                   .batch = args->groups,
                   .m = args->outputs,
                   .n = args->images * cell_count(phase),
                   .k = pairs_of(args->channels),
                   .pack_a = kernel_conv_pack_pairs,
                   .user = phase,
                   .packed_a = phase->packed,
                   .a_is_packed = true,
                   .a_type = DTYPE_F32,
                   .kernel = pairs_kernel()};
  return (kgemm){.c = phase->c,
                 .batch = args->groups,
                 .m = args->outputs,
                 .n = args->images * cell_count(phase),
                 .k = args->channels * tap_count(phase),
                 .pack_a = kernel_conv_pack_weight,
                 .pack_b = pack_patches,
                 .store = store_outputs,
                 .user = phase,
                 .packed_a = phase->packed,
                 .a_is_packed = args->is_packed,
                 .strips_a = is_encoded(&args->encoding) ? widen_weight : NULL,
                 .a_type = args->weight_type,
                 .cut = args->cut};
}

static size_t plane_slots_bytes(const kernel_context *ctx, const conv_phase *phase) {
  return slots_bytes(ctx, plane_count(phase->args), plane_work(phase),
                     kernel_conv_plane_bytes(phase));
}
static void kernel_conv_run_planes(const kernel_context *ctx, const conv_phase *phase,
                                   char *memory) {
  run_slots_in(ctx, plane_count(phase->args), plane_work(phase), kernel_conv_plane_bytes(phase),
               kernel_conv_run_plane, phase, memory);
}

static size_t product_bytes(const kernel_context *ctx, const conv_phase *phase) {
  const kgemm kgemm = kernel_conv_gemm_of(phase);
  return gemm_bytes(ctx, &kgemm);
}
static void kernel_conv_run_product(const kernel_context *ctx, const conv_phase *phase,
                                    char *memory) {
  const kgemm kgemm = kernel_conv_gemm_of(phase);
  gemm_run(ctx, &kgemm, memory);
}

/* Planes that are narrower than this processor's tiles are multiplied as patches (CONV_BY_PRODUCT).
 * This happens if a compiled program runs on another processor than the one it was recorded on. */
static size_t pointwise_way_bytes(const kernel_context *ctx, const conv_phase *phase) {
  const kgemm kgemm = kernel_conv_gemm_of(phase);
  return pointwise_fills_a_tile(phase) ? pointwise_bytes(ctx, phase, &kgemm)
                                       : product_bytes(ctx, phase);
}
static void run_pointwise(const kernel_context *ctx, const conv_phase *phase, char *memory) {
  const kgemm kgemm = kernel_conv_gemm_of(phase);
  if (pointwise_fills_a_tile(phase))
    pointwise_run(ctx, phase, &kgemm, memory);
  else
    kernel_conv_run_product(ctx, phase, memory);
}

typedef struct way_functions {
  size_t (*bytes)(const kernel_context *ctx, const conv_phase *phase);
  void (*run)(const kernel_context *ctx, const conv_phase *phase, char *memory);
} way_functions;
static const way_functions ways[] = {[CONV_BY_PRODUCT] = {product_bytes, kernel_conv_run_product},
                                     [CONV_BY_POINTWISE] = {pointwise_way_bytes, run_pointwise},
#if !KERNEL_UNGROUPED
                                     [CONV_BY_STRIPS] = {depthwise_bytes, depthwise_run},
                                     [CONV_BY_PLANES] = {plane_slots_bytes, kernel_conv_run_planes}
#endif
};

static size_t phase_bytes(const kernel_context *ctx, const conv_phase *phase) {
  return ways[phase->args->way].bytes(ctx, phase);
}

static void run_phase(const kernel_context *ctx, const conv_phase *phase, char *memory) {
  if (cell_count(phase) > 0) ways[phase->args->way].run(ctx, phase, memory);
}

static int64_t kernel_conv_phase_count(const conv_args *args) {
  return args->dims[0].phases * args->dims[1].phases * args->dims[2].phases;
}

/* The outputs of one phase read every tap_step-th tap. Returns the number of such sets of taps. */
static int64_t sets_along(const conv_dim *dim) {
  return dim->tap_step < dim->kernel ? dim->tap_step : dim->kernel;
}
static int64_t set_count(const conv_args *args) {
  return sets_along(&args->dims[0]) * sets_along(&args->dims[1]) * sets_along(&args->dims[2]);
}

/* Returns a convolution with set i of the weight's taps. Unless transposed, set 0 has all. */
static conv_phase make_set(const conv_args *args, int64_t i) {
  conv_phase phase = {.args = args, .c = compute_type_of(args->type)};
  int64_t first[CONV_DIMS];
  split_index(i, sets_along(&args->dims[1]), sets_along(&args->dims[2]), first);
  for (int d = 0; d < CONV_DIMS; d++) {
    const conv_dim *dim = &args->dims[d];
    phase.d[d] =
        (window){.taps = dim->kernel > 0 ? (dim->kernel - 1 - first[d]) / dim->tap_step + 1 : 0,
                 .tap_first = first[d],
                 .tap_step = dim->tap_step};
  }
  return phase;
}

static size_t set_bytes(const conv_args *args, int64_t i) {
  const conv_phase phase = make_set(args, i);
  const kgemm kgemm = kernel_conv_gemm_of(&phase);
  return gemm_packed_bytes(&kgemm);
}

/* Returns the start of a phase's taps in a packed weight, where the sets follow each other. */
static const void *packed_taps(const conv_phase *phase) {
  const conv_args *args = phase->args;
  const char *at = args->packed;
  int64_t set = 0;
  for (int d = 0; d < CONV_DIMS; d++) {
    if (phase->d[d].taps == 0) return at;
    set = set * sets_along(&args->dims[d]) + phase->d[d].tap_first;
  }
  for (int64_t i = 0; at && i < set; i++) at += set_bytes(args, i);
  return at;
}

static conv_phase kernel_conv_make_phase(const conv_args *args, int64_t i) {
  conv_phase phase = {.args = args, .c = compute_type_of(args->type)};
  int64_t position[CONV_DIMS];
  split_index(i, args->dims[1].phases, args->dims[2].phases, position);
  for (int d = 0; d < CONV_DIMS; d++)
    phase.d[d] =
        args->transposed ? phase_window(&args->dims[d], position[d]) : whole_window(&args->dims[d]);
  if (args->is_packed) phase.packed = packed_taps(&phase);
  if (args->is_packed && is_encoded(&args->encoding))
    (void)code_panels_of(&args->encoding, conv_weight_row(args), &phase.codes);
  return phase;
}

/* ---------------------------------------------------------------- the kernel */

/* Phases run one after the other, so this is the maximum over them, plus the decoded weight. */
static size_t conv_scratch(const kernel_context *ctx, const void *args) {
  const conv_args own = conv_decodes(args) ? conv_decoded(args, NULL) : *(const conv_args *)args;
  size_t most = 0;
  for (int64_t i = 0; i < kernel_conv_phase_count(&own); i++) {
    const conv_phase phase = kernel_conv_make_phase(&own, i);
    size_t bytes = phase_bytes(ctx, &phase);
    if (bytes > most) most = bytes;
  }
  return conv_decoded_bytes(args) + most;
}

static bool conv(const kernel_context *ctx, const void *args) {
  conv_args own = *(const conv_args *)args;
  size_t bytes = conv_scratch(ctx, args), weight = conv_decoded_bytes(args);
  char *memory = bytes > 0 ? ctx->scratch(ctx->pool, bytes) : NULL;
  if (bytes > 0 && !memory) return false;
  if (conv_decodes(args)) {
    conv_decode(ctx, args, memory);
    own = conv_decoded(args, memory);
  }
  for (int64_t i = 0; i < kernel_conv_phase_count(&own); i++) {
    const conv_phase phase = kernel_conv_make_phase(&own, i);
    run_phase(ctx, &phase, weight > 0 ? memory + weight : memory);
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
                 OPERAND(conv_args, epilogue.added), OPERAND(conv_args, steps.inputs[1]),
                 OPERAND(conv_args, steps.inputs[2]), OPERAND(conv_args, epilogue.slope)}};

/* ---------------------------------------------------------------- packing */

/* Describes the panels of an encoded weight, in which each output has one row of codes. */
static bool kernel_conv_panels_of(const conv_args *args, code_panels *of) {
  return code_panels_of(&args->encoding, conv_weight_row(args), of);
}

bool conv_packs(const conv_args *args) {
  code_panels of;
  if (conv_is_depthwise(args)) return false;
  if (is_encoded(&args->encoding))
    return !args->transposed && conv_weight_row(args) > 0 && kernel_conv_panels_of(args, &of);
  return set_count(args) <= MAX_SETS;
}

bool conv_accepts_way(const conv_args *args, conv_way way) {
  const conv_args decoded = conv_decodes(args) ? conv_decoded(args, NULL) : *args, *own = &decoded;
  const conv_phase phase = kernel_conv_make_phase(own, 0);
  if (way == CONV_BY_POINTWISE) return !conv_is_depthwise(own) && pointwise_fits(&phase);
  if (way == CONV_BY_PRODUCT) return !conv_is_depthwise(own);
  return conv_is_depthwise(own) && (way == CONV_BY_PLANES || depthwise_fits(&phase));
}

bool conv_rounds(const conv_args *args) {
  conv_args rounded = *args;
  rounded.is_packed = rounded.rounds = true;
  const conv_phase phase = kernel_conv_make_phase(&rounded, 0);
  return conv_packs(args) && pointwise_fits(&phase) && pointwise_fills_a_tile(&phase);
}

static size_t pack_bytes(const conv_args *args) {
  code_panels of;
  if (is_encoded(&args->encoding))
    return kernel_conv_panels_of(args, &of) ? codes_panels_bytes(&of, conv_weight_rows(args)) : 0;
  if (conv_is_tiled(args)) return conv_amx_packed_bytes(args);
  size_t bytes = 0;
  for (int64_t i = 0; i < set_count(args); i++) bytes += set_bytes(args, i);
  return bytes;
}

static size_t kernel_conv_pack_scratch(const kernel_context *ctx, const void *args) {
  (void)ctx;
  return kernel_scratch_size(pack_bytes(args));
}

static bool run_conv_pack(const kernel_context *ctx, const void *args) {
  const conv_args *own = args;
  char *to = ctx->scratch(ctx->pool, pack_bytes(own));
  if (to && is_encoded(&own->encoding)) {
    codes_pack(ctx, &own->encoding, own->weight, conv_weight_rows(own), conv_weight_row(own), to);
    return true;
  }
  if (to && conv_is_tiled(own)) {
    conv_amx_pack(ctx, own, to);
    return true;
  }
  for (int64_t i = 0; to && i < set_count(own); to += set_bytes(own, i++)) {
    const conv_phase phase = make_set(own, i);
    const kgemm kgemm = kernel_conv_gemm_of(&phase);
    gemm_pack_a(ctx, &kgemm, to);
  }
  return to != NULL;
}

const kernel_desc kernel_conv_pack = {.name = "conv_pack",
                                      .run = run_conv_pack,
                                      .scratch = kernel_conv_pack_scratch,
                                      .args_size = sizeof(conv_args),
                                      .operands = {OPERAND(conv_args, weight)}};
