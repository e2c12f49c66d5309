/* Gathers words of two neighbouring channels. An image is copied as planes of words with the
 * padding around them, each of which is one long row: columns of a tile are neighbours in it. The
 * columns between two rows of outputs are therefore computed, too, and left out where sums are
 * stored. With a stride each phase has planes of its own, so that neighbouring outputs see
 * neighbours. */
#include <string.h>

#include "backend/cpu/kernels/conv/conv_amx_gather.h"
#include "backend/cpu/kernels/conv/conv_words.h"
#include "backend/cpu/kernels/gemm/amx_sums.h"
#include "backend/cpu/kernels/support/bf16.h"
#include "backend/cpu/kernels/support/counts.h"

enum {
  MOST_COLUMNS = 256, /* of a task: their sums stay in the second-level cache */
  STEPS = 9,          /* of a pass: its weights stay in the first-level cache */
  SAME_SETS = 1024    /* words from a row of a tile to the next whose lines displace each other */
};

static int64_t group_words(const conv_amx *t) {
  return t->phases[0] * t->phases[1] * t->phases[2] * t->words * t->plane;
}

/* Finds where the words of each tap begin. */
static void find_offsets(conv_amx *t) {
  const conv_args *p = t->p;
  for (int64_t i = 0; i < kernel_size(p); i++) {
    int64_t tap[CONV_DIMS], phase = 0, at = 0;
    split_index(i, p->dims[1].kernel, p->dims[2].kernel, tap);
    for (int d = 0; d < CONV_DIMS; d++) {
      const int64_t from = tap[d] * p->dims[d].dilation;
      phase = phase * t->phases[d] + from % p->dims[d].stride;
      at = at * t->seen[d] + from / p->dims[d].stride;
    }
    t->offsets[i] = phase * t->words * t->plane + at;
  }
}

/* ---------------------------------------------------------------- inputs */

/* ceil_div(n, stride): a division takes as long as a short row. */
static int64_t strides_to(const conv_dim *d, int64_t n) {
  return d->stride == 1 ? n : d->stride == 2 ? (n + 1) >> 1 : ceil_div(n, d->stride);
}

/* A row of the planes of a phase: `left` zeros, n words from element `first` of x on, zeros. */
typedef struct phase_row {
  int64_t left, n, first;
} phase_row;

static phase_row find_phase_row(const conv_amx *t, int64_t phase) {
  const conv_dim *d = &t->p->dims[2];
  const int64_t width = t->seen[2], begin = d->padding - phase, end = begin + d->in;
  const int64_t left = least(begin > 0 ? strides_to(d, begin) : 0, width);
  const int64_t stop = end > 0 ? least(strides_to(d, end), width) : left;
  return (phase_row){left, at_least(stop - left, 0), left * d->stride - begin};
}

/* Copies a row of one plane from two rows of x: zeros where they are NULL. */
static void copy_row(const conv_amx *t, phase_row r, const void *from, const void *odd,
                     uint32_t *to) {
  const int64_t width = t->seen[2], n = from ? r.n : 0;
  const bool bf16 = is_bf16(t->p->x_type);
  memset(to, 0, (size_t)r.left * sizeof *to);
  if (n > 0)
    conv_join_row(bf16, float_at(from, bf16, r.first), odd ? float_at(odd, bf16, r.first) : NULL,
                  t->p->dims[2].stride, n, to + r.left);
  memset(to + r.left + n, 0, (size_t)(width - r.left - n) * sizeof *to);
}

/* A row of planes, of all phases along the last dimension. */
typedef struct plane_row {
  int64_t from; /* of an image's plane where it begins, -1: padding */
  int64_t to;   /* of a group's copy, of the first phase and word */
} plane_row;

/* Finds a row, counted over the phases of the other two dimensions. */
static plane_row find_row(const conv_amx *t, int64_t row) {
  const conv_dim *d = t->p->dims;
  const int64_t y = row % t->seen[1], py = row / t->seen[1] % t->phases[1],
                z = row / t->seen[1] / t->phases[1] % t->seen[0],
                pz = row / t->seen[1] / t->phases[1] / t->seen[0];
  const int64_t at_z = z * d[0].stride + pz - d[0].padding,
                at_y = y * d[1].stride + py - d[1].padding;
  const bool inside = at_z >= 0 && at_z < d[0].in && at_y >= 0 && at_y < d[1].in;
  return (plane_row){inside ? (at_z * d[1].in + at_y) * d[2].in : -1,
                     (pz * t->phases[1] + py) * t->phases[2] * t->words * t->plane +
                         (z * t->seen[1] + y) * t->seen[2]};
}

/* Copies a row of planes [word, word + words) of a group, of one phase, from element `from` of the
 * planes of x on to `to`. from: -1 for zeros. */
static void copy_planes(const conv_amx *t, int64_t group, int64_t word, int64_t words, int64_t from,
                        phase_row r, uint32_t *to) {
  const conv_args *p = t->p;
  const int64_t size = in_size(p), channels = p->channels - 2 * word,
                at = ((t->image * p->groups + group) * p->channels + 2 * word) * size + from;
  const bool bf16 = is_bf16(p->x_type), inside = from >= 0 && channels > 0;
  if (bf16 && p->dims[2].stride <= 2) {
    conv_join_planes(&(conv_planes){.x = inside ? (const uint16_t *)p->x + at + r.first : NULL,
                                    .channels = channels,
                                    .channel = size,
                                    .step = p->dims[2].stride,
                                    .left = r.left,
                                    .n = r.n,
                                    .width = t->seen[2],
                                    .words = words,
                                    .to = to,
                                    .plane = t->plane});
    return;
  }
  for (int64_t i = 0; i < words; i++) {
    const bool even = inside && 2 * i < channels, odd = inside && 2 * i + 1 < channels;
    copy_row(t, r, even ? float_at(p->x, bf16, at + 2 * i * size) : NULL,
             odd ? float_at(p->x, bf16, at + (2 * i + 1) * size) : NULL, to + i * t->plane);
  }
}

/* Copies rows, counted over the words of all groups. */
static void copy_rows(void *ctx, int64_t begin, int64_t end) {
  const conv_amx *t = ctx;
  const int64_t planes = t->p->groups * t->words;
  for (int64_t i = begin, n; i < end; i += n) {
    const plane_row row = find_row(t, i / planes);
    const int64_t group = i % planes / t->words, word = i % t->words;
    n = least(end - i, t->words - word);
    uint32_t *to = t->copied + group * group_words(t) + row.to + word * t->plane;
    for (int64_t px = 0; px < t->phases[2]; px++, to += t->words * t->plane)
      copy_planes(t, group, word, n, row.from, find_phase_row(t, px), to);
  }
}

/* ---------------------------------------------------------------- the plan */

static const uint32_t *gather(const conv_amx *t, const conv_amx_patch *k, uint32_t *panel) {
  (void)panel;
  return t->copied + k->group * group_words(t) + (k->z * t->seen[1] + k->row) * t->seen[2] +
         k->column;
}

void conv_amx_plan_planes(conv_amx *t) {
  const conv_args *p = t->p;
  t->words = conv_tiled_words(p);
  t->plane = 1;
  t->copied_rows = p->groups * t->words;
  for (int d = 0; d < CONV_DIMS; d++) {
    const conv_dim *k = &p->dims[d];
    t->phases[d] = conv_dim_phases(k);
    t->seen[d] = k->out > 0 ? conv_dim_phase_size(k) : 0;
    t->plane *= t->seen[d];
    if (d < CONV_DIMS - 1) t->copied_rows *= t->phases[d] * t->seen[d];
  }
  if (t->plane % SAME_SETS == 0) t->plane += AMX_WORDS;
  find_offsets(t);
  t->copy_rows = copy_rows;
  t->row_words = t->seen[2] * t->phases[2];
  t->copied_words = p->groups * group_words(t) + 2 * AMX_COLUMNS;
  t->most_columns = MOST_COLUMNS;
  t->row_step = t->seen[2];
  t->strip_parts = t->strips;
  /* Tasks that follow each other share the larger of the weight and the planes of a group. */
  t->strips_first = group_words(t) > t->strips * conv_strip_words(p);
  t->gather = gather;
  t->taps = kernel_size(p);
  t->depth = p->channels * t->taps;
  t->step = t->plane;
  t->blocks_at_once = at_least(STEPS / t->taps, 1);
  t->asks = true;
}
