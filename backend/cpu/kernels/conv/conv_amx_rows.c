/* Gathers words of two neighbours of a row, where there are few channels. Rows of an image are
 * copied as such words with the padding around them: an output sees a few words of a row. A task
 * packs the words of its outputs as a panel, which is multiplied with all strips. */
#include <string.h>

#include "backend/cpu/kernels/conv/conv_amx_gather.h"
#include "backend/cpu/kernels/conv/conv_words.h"
#include "backend/cpu/kernels/gemm/amx_sums.h"
#include "backend/cpu/kernels/support/avx512.h"
#include "backend/cpu/kernels/support/bf16.h"
#include "backend/cpu/kernels/support/counts.h"

enum { MOST_COLUMNS = 128 /* of a task */ };

/* Elements from a word of a copied row to the next. */
static int64_t word_step(const conv_args *p) { return p->dims[2].stride == 1 ? 1 : 2; }
/* From a pair of a row's elements to the next, and from an output's first to the next output's, in
 * words of a copied row. */
static int64_t pair_step(const conv_amx *t) { return 2 / word_step(t->p); }
static int64_t output_step(const conv_amx *t) { return t->p->dims[2].stride / word_step(t->p); }

/* ---------------------------------------------------------------- inputs */

/* Returns word i of a row, of elements that may be padding. */
static uint32_t word_at(const conv_amx *t, const void *from, int64_t i) {
  const conv_dim *d = &t->p->dims[2];
  const bool bf16 = is_bf16(t->p->x_type);
  uint32_t word = 0;
  for (int64_t half = 0; half < 2; half++) {
    const int64_t at = i * word_step(t->p) + half - d->padding;
    if (at < 0 || at >= d->in) continue;
    const uint16_t bits =
        bf16 ? ((const uint16_t *)from)[at] : f32_to_bf16(((const float *)from)[at]);
    word |= (uint32_t)bits << 16 * half;
  }
  return word;
}

/* Makes n words from element `at` of a row on. */
static void join_words(const conv_amx *t, const void *from, int64_t at, int64_t n, uint32_t *to) {
  const bool bf16 = is_bf16(t->p->x_type);
  const void *even = float_at(from, bf16, at);
  if (t->p->dims[2].stride == 1)
    conv_join_row(bf16, even, float_at(from, bf16, at + 1), 1, n, to);
  else if (bf16)
    memcpy(to, even, (size_t)n * sizeof *to);
  else
    pairs_round(even, n, to);
}

static void copy_row(const conv_amx *t, const void *from, uint32_t *to) {
  const conv_dim *d = &t->p->dims[2];
  const int64_t step = word_step(t->p), begin = least(ceil_div(d->padding, step), t->seen[2]),
                last = d->in + d->padding - 2; /* where a word begins whose halves are both there */
  const int64_t end = at_least(least(last < 0 ? 0 : last / step + 1, t->seen[2]), begin);
  for (int64_t i = 0; i < begin; i++) to[i] = word_at(t, from, i);
  if (end > begin) join_words(t, from, begin * step - d->padding, end - begin, to + begin);
  for (int64_t i = end; i < t->seen[2]; i++) to[i] = word_at(t, from, i);
}

static void copy_rows(void *ctx, int64_t begin, int64_t end) {
  const conv_amx *t = ctx;
  const conv_args *p = t->p;
  const conv_dim *d = p->dims;
  for (int64_t i = begin; i < end; i++) {
    const int64_t y = i % t->seen[1] - d[1].padding, z = i / t->seen[1] % t->seen[0] - d[0].padding,
                  channel = t->image * p->groups * p->channels + i / t->seen[1] / t->seen[0];
    const int64_t at = (channel * d[0].in * d[1].in + z * d[1].in + y) * d[2].in;
    uint32_t *to = t->copied + i * t->seen[2];
    if (z < 0 || z >= d[0].in || y < 0 || y >= d[1].in)
      memset(to, 0, (size_t)t->seen[2] * sizeof *to);
    else
      copy_row(t, float_at(p->x, is_bf16(p->x_type), at), to);
  }
}

#if KERNEL_X86
/* Copies the bits of n words that `keep` has. Rows of a panel are short. */
TARGET_AVX512 static void copy_words(const uint32_t *from, int64_t n, uint32_t keep, uint32_t *to) {
  enum { LANES = 16 };
  const __m512i bits = _mm512_set1_epi32((int)keep);
  int64_t i = 0;
  for (; i + LANES <= n; i += LANES)
    _mm512_storeu_si512(to + i, _mm512_and_si512(bits, _mm512_loadu_si512(from + i)));
  const __mmask16 rest = (__mmask16)bits_between(0, n - i);
  _mm512_mask_storeu_epi32(to + i, rest,
                           _mm512_and_si512(bits, _mm512_maskz_loadu_epi32(rest, from + i)));
}
#else
static void copy_words(const uint32_t *from, int64_t n, uint32_t keep, uint32_t *to) {
  for (int64_t i = 0; i < n; i++) to[i] = from[i] & keep;
}
#endif

/* Packs the words that outputs of a row see of a row of the kernel, one row of words for each pair
 * of taps. The last pair of an odd number has zeros: an infinity times a weight of zero is no
 * number.
 */
static void pack_row(const conv_amx *t, const uint32_t *from, int64_t columns, uint32_t *to) {
  const int64_t kernel = t->p->dims[2].kernel, step = output_step(t), next = pair_step(t),
                wide = t->step;
  for (int64_t i = 0; i < kernel; i += 2, from += next, to += wide) {
    const uint32_t keep = i + 1 < kernel ? UINT32_MAX : 0xffff;
    if (step == 1) copy_words(from, columns, keep, to);
    for (int64_t j = 0; step > 1 && j < columns; j++) to[j] = from[j * step] & keep;
  }
}

/* panel (words, step) */
static const uint32_t *pack_panel(const conv_amx *t, const conv_amx_patch *k, uint32_t *panel) {
  const conv_args *p = t->p;
  const conv_dim *d = p->dims;
  const int64_t wide = t->step, own = conv_rows_words(p);
  uint32_t *to = panel;
  for (int64_t i = 0; i < p->channels * d[0].kernel * d[1].kernel; i++) {
    const int64_t y = i % d[1].kernel * d[1].dilation,
                  z = i / d[1].kernel % d[0].kernel * d[0].dilation + k->z * d[0].stride;
    const uint32_t *slice = t->copied +
                            (k->group * p->channels + i / d[1].kernel / d[0].kernel) * t->plane +
                            z * t->seen[1] * t->seen[2] + k->column * output_step(t);
    for (int64_t row = 0; row < k->rows; row++)
      pack_row(t, slice + ((k->row + row) * d[1].stride + y) * t->seen[2], k->columns,
               to + row * k->columns);
    to += conv_row_words(p) * wide;
  }
  memset(to, 0, (size_t)((t->words - own) * wide) * sizeof *to);
  return panel;
}

/* ---------------------------------------------------------------- the plan */

void conv_amx_plan_rows(conv_amx *t) {
  const conv_args *p = t->p;
  t->words = round_up(conv_rows_words(p), AMX_WORDS);
  if (out_size(p) > 0) {
    t->seen[0] = conv_dim_reach(&p->dims[0], p->dims[0].out);
    t->seen[1] = conv_dim_reach(&p->dims[1], p->dims[1].out);
    t->seen[2] = (p->dims[2].out - 1) * output_step(t) + 1 + (conv_row_words(p) - 1) * pair_step(t);
  }
  t->plane = t->seen[0] * t->seen[1] * t->seen[2];
  t->copy_rows = copy_rows;
  t->copied_rows = p->groups * p->channels * t->seen[0] * t->seen[1];
  t->row_words = t->seen[2];
  t->copied_words = p->groups * p->channels * t->plane;
  t->most_columns = MOST_COLUMNS;
  t->row_step = p->dims[2].out;
  t->strip_parts = 1;
  t->gather = pack_panel;
  t->taps = 1;
  t->depth = 2 * t->words;
  t->blocks_at_once = t->words / AMX_WORDS;
}
