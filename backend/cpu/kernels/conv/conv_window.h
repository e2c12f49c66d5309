#ifndef BACKEND_CPU_KERNELS_CONV_CONV_WINDOW_H
#define BACKEND_CPU_KERNELS_CONV_CONV_WINDOW_H
/* Arguments of a convolution, and the inputs that each output reads. A cell is an output position
 * of a phase; a tap is a position of the kernel. */
#include "backend/cpu/kernels/conv/conv_epilogue.h"
#include "backend/cpu/kernels/elementwise/step_rows.h"
#include "backend/cpu/kernels/gemm/codes.h"
#include "backend/cpu/kernels/gemm/gemm_cut.h"
#include "backend/cpu/kernels/support/rows.h"
#include "base/code_panels.h"
#include "base/conv_dim.h"
#include "base/kernel.h"

enum { CONV_DIMS = 3 };

/* Ways of kernel_conv to compute a convolution. One is chosen when it is recorded. */
typedef enum conv_way {
  CONV_BY_PRODUCT,   /* a matrix product with packed patches */
  CONV_BY_POINTWISE, /* a matrix product with the planes in place (pointwise.h) */
  CONV_BY_STRIPS,    /* depthwise, all taps of a strip in one pass (depthwise.h) */
  CONV_BY_PLANES     /* depthwise, tap by tap */
} conv_way;

typedef struct conv_args {
  const void *x;          /* (images, groups * channels, in...) */
  const void *weight;     /* (groups * outputs, channels, kernel...);
                             transposed: (groups * channels, outputs, kernel...) */
  const void *bias;       /* (groups * outputs), may be NULL */
  const void *packed;     /* the weight in the layout of the kernel that packs it, if is_packed */
  void *out;              /* (images, groups * outputs, out...) */
  dtype type;             /* dtype of x, bias and out in the program */
  dtype x_type, out_type; /* as stored: F32 may be kept as BF16 (bf16.h) */
  dtype weight_type;
  bool transposed, is_packed;
  bool rounds;       /* rounds x and the weight to BF16 (pairs.h); `packed` holds BF16 */
  encoding encoding; /* encoding of the weight; unless plain, one row per index of axis 0 */
  int64_t images, groups, channels, outputs;
  conv_dim dims[CONV_DIMS];
  conv_way way; /* accepted by conv_accepts_way; unused by kernel_conv_direct */
  gemm_cut cut;
  conv_epilogue epilogue; /* conv_epilogue_none unless conv_accepts_epilogue */
  short_elementwise_args
      steps; /* applied in place after the epilogue; empty unless conv_accepts_epilogue */
} conv_args;

static inline bool conv_is_rounded(const conv_args *args) { return !KERNEL_PLAIN && args->rounds; }

/* One dimension: output first + i * step, i < count, sums over t < taps the input at
 * origin + i * stride + t * dilation times the weight at tap_first + t * tap_step. */
typedef struct window {
  int64_t count, first, step;
  int64_t taps, tap_first, tap_step;
  int64_t origin, stride, dilation;
} window;

/* A convolution, or one phase of a transposed one. */
typedef struct conv_phase {
  const conv_args *args;
  compute_type c; /* type of the sums */
  window d[CONV_DIMS];
  const void *packed; /* the phase's taps of a packed weight */
  code_panels codes;  /* layout of a packed, encoded weight */
} conv_phase;

/* Return numbers of elements: in_size of an input plane, out_size of an output plane, kernel_size
 * of a kernel; then the outputs and the taps of a phase. */
static inline int64_t in_size(const conv_args *args) {
  return args->dims[0].in * args->dims[1].in * args->dims[2].in;
}
static inline int64_t out_size(const conv_args *args) {
  return args->dims[0].out * args->dims[1].out * args->dims[2].out;
}
static inline int64_t kernel_size(const conv_args *args) {
  return args->dims[0].kernel * args->dims[1].kernel * args->dims[2].kernel;
}
static inline int64_t cell_count(const conv_phase *phase) {
  return phase->d[0].count * phase->d[1].count * phase->d[2].count;
}
static inline int64_t tap_count(const conv_phase *phase) {
  return phase->d[0].taps * phase->d[1].taps * phase->d[2].taps;
}

/* Returns the window of a dimension of an ordinary convolution, which has all outputs and taps. */
static inline window whole_window(const conv_dim *dim) {
  return (window){.count = dim->out,
                  .step = 1,
                  .taps = dim->kernel,
                  .tap_step = 1,
                  .origin = -dim->padding,
                  .stride = dim->stride,
                  .dilation = dim->dilation};
}

/* Splits i into a position in row-major order. */
static inline void split_index(int64_t i, int64_t rows, int64_t columns, int64_t at[CONV_DIMS]) {
  at[2] = i % columns;
  at[1] = i / columns % rows;
  at[0] = i / columns / rows;
}

static inline void split_cell(const conv_phase *phase, int64_t i, int64_t at[CONV_DIMS]) {
  split_index(i, phase->d[1].count, phase->d[2].count, at);
}

static inline void split_tap(const conv_phase *phase, int64_t t, int64_t at[CONV_DIMS]) {
  split_index(t, phase->d[1].taps, phase->d[2].taps, at);
}

/* Returns the window of the outputs of a transposed convolution whose position modulo the stride is
 * `phase`. Input i and tap k meet at output i * stride - padding + k * dilation. */
static inline window phase_window(const conv_dim *dim, int64_t phase) {
  int64_t shift = phase + dim->padding;
  window window = {.first = phase, .step = dim->stride, .tap_step = dim->tap_step, .stride = 1};
  window.count = dim->out > phase ? (dim->out - phase - 1) / dim->stride + 1 : 0;
  while (window.tap_first < dim->kernel &&
         (shift - window.tap_first * dim->dilation) % dim->stride != 0)
    window.tap_first++;
  if (window.tap_first == dim->kernel) return window;
  window.taps = (dim->kernel - 1 - window.tap_first) / window.tap_step + 1;
  window.origin = (shift - window.tap_first * dim->dilation) / dim->stride;
  window.dilation = -(window.tap_step * dim->dilation / dim->stride);
  return window;
}

/* Returns the index of the input that output i reads at a tap. Outside of x it is padding. */
static inline int64_t input_at(const window *window, int64_t i, int64_t tap) {
  return window->origin + i * window->stride + tap * window->dilation;
}

/* Returns the input row that `tap` reads for the output row of `cell`; -1 if it is padding. */
static inline int64_t input_row(const conv_phase *phase, const int64_t cell[],
                                const int64_t tap[]) {
  const conv_dim *in = phase->args->dims;
  int64_t z = input_at(&phase->d[0], cell[0], tap[0]), y = input_at(&phase->d[1], cell[1], tap[1]);
  return z < 0 || z >= in[0].in || y < 0 || y >= in[1].in ? -1 : z * in[1].in + y;
}

/* Finds the columns [*first, *stop) within [from, to) whose input column i * stride + shift is in
 * [0, in). */
static inline void columns_within(int64_t in, int64_t stride, int64_t shift, int64_t from,
                                  int64_t to, int64_t *first, int64_t *stop) {
  const int64_t last = in - 1 - shift;
  int64_t low = shift < 0 ? -shift : 0, high = last < 0 ? 0 : last + 1;
  if (stride == 2) { /* without a division, which takes as long as a short row */
    low = (low + 1) >> 1;
    high = (high + 1) >> 1;
  } else if (stride > 1) {
    low = (low + stride - 1) / stride;
    high = (high + stride - 1) / stride;
  }
  *first = low < from ? from : low > to ? to : low;
  *stop = high > to ? to : high < *first ? *first : high;
}

/* Like columns_within, for the rows of a convolution. */
static inline void valid_columns(const conv_phase *phase, int64_t shift, int64_t from, int64_t to,
                                 int64_t *first, int64_t *stop) {
  columns_within(phase->args->dims[2].in, phase->d[2].stride, shift, from, to, first, stop);
}

/* A segment: n neighbouring cells of one output row of an image, from `cell` on. */
typedef struct segment {
  int64_t image, cell[CONV_DIMS], n;
} segment;

/* Splits cells [at, at + n) of all images into segments. Returns their count, at most n. */
static inline int find_segments(const conv_phase *phase, int64_t at, int64_t n, segment *to) {
  int count = 0;
  for (int64_t m; n > 0; at += m, n -= m) {
    segment *segment = &to[count++];
    segment->image = at / cell_count(phase);
    split_cell(phase, at % cell_count(phase), segment->cell);
    m = phase->d[2].count - segment->cell[2] < n ? phase->d[2].count - segment->cell[2] : n;
    segment->n = m;
  }
  return count;
}

#endif
