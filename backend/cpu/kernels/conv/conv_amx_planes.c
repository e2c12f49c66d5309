/* Gathers words of two neighbouring channels. An image is copied as planes of words that include
 * the padding. Each plane is one long row, so the columns of a tile are neighbours in it. Columns
 * between two rows of outputs are computed as well, and skipped when sums are stored. With a
 * stride, each phase has its own planes, so that neighbouring outputs read neighbouring words. */
#include <string.h>

#include "backend/cpu/kernels/conv/conv_amx_gather.h"
#include "backend/cpu/kernels/conv/conv_words.h"
#include "backend/cpu/kernels/gemm/amx_sums.h"
#include "backend/cpu/kernels/support/bf16.h"
#include "base/counts.h"

enum {
  MAX_COLUMNS = 256, /* maximum columns per task, whose sums stay in the second-level cache */
  STEPS = 9,         /* steps per pass, whose weights stay in the first-level cache */
  SAME_SETS = 1024   /* rows of a tile a multiple of so many words apart evict each other */
};

static int64_t group_words(const conv_amx *amx) {
  return amx->phases[0] * amx->phases[1] * amx->phases[2] * amx->words * amx->plane;
}

/* Computes the offset of each tap's words. */
static void conv_amx_planes_find_offsets(conv_amx *amx) {
  const conv_args *args = amx->args;
  for (int64_t i = 0; i < kernel_size(args); i++) {
    int64_t tap[CONV_DIMS], phase = 0, at = 0;
    split_index(i, args->dims[1].kernel, args->dims[2].kernel, tap);
    for (int d = 0; d < CONV_DIMS; d++) {
      const int64_t from = tap[d] * args->dims[d].dilation;
      phase = phase * amx->phases[d] + from % args->dims[d].stride;
      at = at * amx->seen[d] + from / args->dims[d].stride;
    }
    amx->offsets[i] = phase * amx->words * amx->plane + at;
  }
}

/* ---------------------------------------------------------------- inputs */

/* Returns ceil_div(n, stride), for strides of 1 and 2 without a division, which takes as long as a
 * short row. */
static int64_t strides_to(const conv_dim *dim, int64_t n) {
  return dim->stride == 1 ? n : dim->stride == 2 ? (n + 1) >> 1 : ceil_div(n, dim->stride);
}

/* A row of the planes of a phase: `left` zeros, n words of x from `first` on, then zeros. */
typedef struct phase_row {
  int64_t left, n, first;
} phase_row;

static phase_row find_phase_row(const conv_amx *amx, int64_t phase) {
  const conv_dim *dim = &amx->args->dims[2];
  const int64_t width = amx->seen[2], begin = dim->padding - phase, end = begin + dim->in;
  const int64_t left = min_i64(begin > 0 ? strides_to(dim, begin) : 0, width);
  const int64_t stop = end > 0 ? min_i64(strides_to(dim, end), width) : left;
  return (phase_row){left, max_i64(stop - left, 0), left * dim->stride - begin};
}

/* Copies a row of one plane from two rows of x; NULL stands for a row of zeros. */
static void conv_amx_planes_copy_row(const conv_amx *amx, phase_row row, const void *from,
                                     const void *odd, uint32_t *to) {
  const int64_t width = amx->seen[2], n = from ? row.n : 0;
  const bool bf16 = is_bf16(amx->args->x_type);
  memset(to, 0, (size_t)row.left * sizeof *to);
  if (n > 0)
    conv_join_row(bf16, float_at(from, bf16, row.first),
                  odd ? float_at(odd, bf16, row.first) : NULL, amx->args->dims[2].stride, n,
                  to + row.left);
  memset(to + row.left + n, 0, (size_t)(width - row.left - n) * sizeof *to);
}

/* A row of planes, in all phases along the last dimension. */
typedef struct plane_row {
  int64_t from; /* offset of the row in an image's plane of x; -1: padding */
  int64_t to;   /* offset of the row in a group's copy, for the first phase and word */
} plane_row;

/* Returns row `row` of the planes, counted over the phases of the first two dimensions. */
static plane_row conv_amx_planes_find_row(const conv_amx *amx, int64_t row) {
  const conv_dim *dim = amx->args->dims;
  const int64_t y = row % amx->seen[1], py = row / amx->seen[1] % amx->phases[1],
                z = row / amx->seen[1] / amx->phases[1] % amx->seen[0],
                pz = row / amx->seen[1] / amx->phases[1] / amx->seen[0];
  const int64_t at_z = z * dim[0].stride + pz - dim[0].padding,
                at_y = y * dim[1].stride + py - dim[1].padding;
  const bool inside = at_z >= 0 && at_z < dim[0].in && at_y >= 0 && at_y < dim[1].in;
  return (plane_row){inside ? (at_z * dim[1].in + at_y) * dim[2].in : -1,
                     (pz * amx->phases[1] + py) * amx->phases[2] * amx->words * amx->plane +
                         (z * amx->seen[1] + y) * amx->seen[2]};
}

/* Copies one row of planes [word, word + words) of a group and phase to `to`. from: offset of the
 * row in the planes of x; -1 stands for zeros. */
static void copy_planes(const conv_amx *amx, int64_t group, int64_t word, int64_t words,
                        int64_t from, phase_row row, uint32_t *to) {
  const conv_args *args = amx->args;
  const int64_t size = in_size(args), channels = args->channels - 2 * word,
                at =
                    ((amx->image * args->groups + group) * args->channels + 2 * word) * size + from;
  const bool bf16 = is_bf16(args->x_type), inside = from >= 0 && channels > 0;
  if (bf16 && args->dims[2].stride <= 2) {
    conv_join_planes(&(conv_planes){.x = inside ? (const uint16_t *)args->x + at + row.first : NULL,
                                    .channels = channels,
                                    .channel = size,
                                    .step = args->dims[2].stride,
                                    .left = row.left,
                                    .n = row.n,
                                    .width = amx->seen[2],
                                    .words = words,
                                    .to = to,
                                    .plane = amx->plane});
    return;
  }
  for (int64_t i = 0; i < words; i++) {
    const bool even = inside && 2 * i < channels, odd = inside && 2 * i + 1 < channels;
    conv_amx_planes_copy_row(amx, row, even ? float_at(args->x, bf16, at + 2 * i * size) : NULL,
                             odd ? float_at(args->x, bf16, at + (2 * i + 1) * size) : NULL,
                             to + i * amx->plane);
  }
}

/* Copies rows, counted over the words of all groups. */
static void conv_amx_planes_copy_rows(void *ctx, int64_t begin, int64_t end) {
  const conv_amx *amx = ctx;
  const int64_t planes = amx->args->groups * amx->words;
  for (int64_t i = begin, n; i < end; i += n) {
    const plane_row row = conv_amx_planes_find_row(amx, i / planes);
    const int64_t group = i % planes / amx->words, word = i % amx->words;
    n = min_i64(end - i, amx->words - word);
    uint32_t *to = amx->copied + group * group_words(amx) + row.to + word * amx->plane;
    for (int64_t px = 0; px < amx->phases[2]; px++, to += amx->words * amx->plane)
      copy_planes(amx, group, word, n, row.from, find_phase_row(amx, px), to);
  }
}

/* ---------------------------------------------------------------- the plan */

static const uint32_t *conv_amx_planes_gather(const conv_amx *amx, const conv_amx_patch *patch,
                                              uint32_t *panel) {
  (void)panel;
  return amx->copied + patch->group * group_words(amx) +
         (patch->z * amx->seen[1] + patch->row) * amx->seen[2] + patch->column;
}

void conv_amx_plan_planes(conv_amx *amx) {
  const conv_args *args = amx->args;
  amx->words = conv_tiled_words(args);
  amx->plane = 1;
  amx->copied_rows = args->groups * amx->words;
  for (int d = 0; d < CONV_DIMS; d++) {
    const conv_dim *dim = &args->dims[d];
    amx->phases[d] = conv_dim_phases(dim);
    amx->seen[d] = dim->out > 0 ? conv_dim_phase_size(dim) : 0;
    amx->plane *= amx->seen[d];
    if (d < CONV_DIMS - 1) amx->copied_rows *= amx->phases[d] * amx->seen[d];
  }
  if (amx->plane % SAME_SETS == 0) amx->plane += AMX_WORDS;
  conv_amx_planes_find_offsets(amx);
  amx->copy_rows = conv_amx_planes_copy_rows;
  amx->row_words = amx->seen[2] * amx->phases[2];
  amx->copied_words = args->groups * group_words(amx) + 2 * AMX_COLUMNS;
  amx->max_columns = MAX_COLUMNS;
  amx->row_stride = amx->seen[2];
  amx->strip_shares = amx->strips;
  /* Consecutive tasks share the larger of the weight and the planes of a group. */
  amx->strips_first = group_words(amx) > amx->strips * conv_strip_words(args);
  amx->gather = conv_amx_planes_gather;
  amx->taps = kernel_size(args);
  amx->depth = args->channels * amx->taps;
  amx->step = amx->plane;
  amx->blocks_at_once = max_i64(STEPS / amx->taps, 1);
  amx->prefetches = true;
}
