/* Gathers words of two neighbours of a row, for few channels. Rows of an image are copied as such
 * words including the padding; an output reads a few words of each row. A task packs the words of
 * its outputs as a panel, which is multiplied with all strips. */
#include <string.h>

#include "backend/cpu/kernels/conv/conv_amx_gather.h"
#include "backend/cpu/kernels/conv/conv_words.h"
#include "backend/cpu/kernels/gemm/amx_sums.h"
#include "backend/cpu/kernels/support/avx512.h"
#include "backend/cpu/kernels/support/bf16.h"
#include "base/counts.h"

enum { MAX_COLUMNS = 128 /* columns of a task */ };

/* Elements from a word of a copied row to the next. */
static int64_t word_stride(const conv_args *args) { return args->dims[2].stride == 1 ? 1 : 2; }
/* pair_stride is the distance between the pairs of elements that an output reads, output_stride
 * that between the first pairs of neighbouring outputs, in words of a copied row. */
static int64_t pair_stride(const conv_amx *amx) { return 2 / word_stride(amx->args); }
static int64_t output_stride(const conv_amx *amx) {
  return amx->args->dims[2].stride / word_stride(amx->args);
}

/* ---------------------------------------------------------------- inputs */

/* Returns word i of a row; elements of the padding are 0. */
static uint32_t word_at(const conv_amx *amx, const void *from, int64_t i) {
  const conv_dim *dim = &amx->args->dims[2];
  const bool bf16 = is_bf16(amx->args->x_type);
  uint32_t word = 0;
  for (int64_t half = 0; half < 2; half++) {
    const int64_t at = i * word_stride(amx->args) + half - dim->padding;
    if (at < 0 || at >= dim->in) continue;
    const uint16_t bits =
        bf16 ? ((const uint16_t *)from)[at] : f32_to_bf16(((const float *)from)[at]);
    word |= (uint32_t)bits << 16 * half;
  }
  return word;
}

/* Writes n words that begin with element `at` of a row. */
static void join_words(const conv_amx *amx, const void *from, int64_t at, int64_t n, uint32_t *to) {
  const bool bf16 = is_bf16(amx->args->x_type);
  const void *even = float_at(from, bf16, at);
  if (amx->args->dims[2].stride == 1)
    conv_join_row(bf16, even, float_at(from, bf16, at + 1), 1, n, to);
  else if (bf16)
    memcpy(to, even, (size_t)n * sizeof *to);
  else
    pairs_round(even, n, to);
}

static void copy_row_as_words(const conv_amx *amx, const void *from, uint32_t *to) {
  const conv_dim *dim = &amx->args->dims[2];
  const int64_t step = word_stride(amx->args),
                begin = min_i64(ceil_div(dim->padding, step), amx->seen[2]),
                last = dim->in + dim->padding -
                       2; /* the last word whose halves are both in the row begins here */
  const int64_t end = max_i64(min_i64(last < 0 ? 0 : last / step + 1, amx->seen[2]), begin);
  for (int64_t i = 0; i < begin; i++) to[i] = word_at(amx, from, i);
  if (end > begin) join_words(amx, from, begin * step - dim->padding, end - begin, to + begin);
  for (int64_t i = end; i < amx->seen[2]; i++) to[i] = word_at(amx, from, i);
}

static void copy_rows_as_words(void *ctx, int64_t begin, int64_t end) {
  const conv_amx *amx = ctx;
  const conv_args *args = amx->args;
  const conv_dim *dim = args->dims;
  for (int64_t i = begin; i < end; i++) {
    const int64_t y = i % amx->seen[1] - dim[1].padding,
                  z = i / amx->seen[1] % amx->seen[0] - dim[0].padding,
                  channel =
                      amx->image * args->groups * args->channels + i / amx->seen[1] / amx->seen[0];
    const int64_t at = (channel * dim[0].in * dim[1].in + z * dim[1].in + y) * dim[2].in;
    uint32_t *to = amx->copied + i * amx->seen[2];
    if (z < 0 || z >= dim[0].in || y < 0 || y >= dim[1].in)
      memset(to, 0, (size_t)amx->seen[2] * sizeof *to);
    else
      copy_row_as_words(amx, float_at(args->x, is_bf16(args->x_type), at), to);
  }
}

#if KERNEL_X86
/* Copies n words, masked with `keep`. Written for short rows of a panel. */
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

/* Packs the words that the outputs of a row read for one row of the kernel: one row of words per
 * pair of taps. With an odd number of taps, the second half of the last pair is zeroed, because an
 * infinity times a zero weight would be NaN. */
static void conv_amx_rows_pack_row(const conv_amx *amx, const uint32_t *from, int64_t columns,
                                   uint32_t *to) {
  const int64_t kernel = amx->args->dims[2].kernel, step = output_stride(amx),
                next = pair_stride(amx), wide = amx->step;
  for (int64_t i = 0; i < kernel; i += 2, from += next, to += wide) {
    const uint32_t keep = i + 1 < kernel ? UINT32_MAX : 0xffff;
    if (step == 1) copy_words(from, columns, keep, to);
    for (int64_t j = 0; step > 1 && j < columns; j++) to[j] = from[j * step] & keep;
  }
}

/* Packs panel (words, step). */
static const uint32_t *conv_amx_rows_pack_panel(const conv_amx *amx, const conv_amx_patch *patch,
                                                uint32_t *panel) {
  const conv_args *args = amx->args;
  const conv_dim *dim = args->dims;
  const int64_t wide = amx->step, own = conv_rows_words(args);
  uint32_t *to = panel;
  for (int64_t i = 0; i < args->channels * dim[0].kernel * dim[1].kernel; i++) {
    const int64_t y = i % dim[1].kernel * dim[1].dilation,
                  z = i / dim[1].kernel % dim[0].kernel * dim[0].dilation +
                      patch->z * dim[0].stride;
    const uint32_t *slice =
        amx->copied +
        (patch->group * args->channels + i / dim[1].kernel / dim[0].kernel) * amx->plane +
        z * amx->seen[1] * amx->seen[2] + patch->column * output_stride(amx);
    for (int64_t row = 0; row < patch->rows; row++)
      conv_amx_rows_pack_row(amx, slice + ((patch->row + row) * dim[1].stride + y) * amx->seen[2],
                             patch->columns, to + row * patch->columns);
    to += conv_row_words(args) * wide;
  }
  memset(to, 0, (size_t)((amx->words - own) * wide) * sizeof *to);
  return panel;
}

/* ---------------------------------------------------------------- the plan */

void conv_amx_plan_rows(conv_amx *amx) {
  const conv_args *args = amx->args;
  amx->words = round_up(conv_rows_words(args), AMX_WORDS);
  if (out_size(args) > 0) {
    amx->seen[0] = conv_dim_reach(&args->dims[0], args->dims[0].out);
    amx->seen[1] = conv_dim_reach(&args->dims[1], args->dims[1].out);
    amx->seen[2] = (args->dims[2].out - 1) * output_stride(amx) + 1 +
                   (conv_row_words(args) - 1) * pair_stride(amx);
  }
  amx->plane = amx->seen[0] * amx->seen[1] * amx->seen[2];
  amx->copy_rows = copy_rows_as_words;
  amx->copied_rows = args->groups * args->channels * amx->seen[0] * amx->seen[1];
  amx->row_words = amx->seen[2];
  amx->copied_words = args->groups * args->channels * amx->plane;
  amx->max_columns = MAX_COLUMNS;
  amx->row_stride = args->dims[2].out;
  amx->strip_shares = 1;
  amx->gather = conv_amx_rows_pack_panel;
  amx->taps = 1;
  amx->depth = 2 * amx->words;
  amx->blocks_at_once = amx->words / AMX_WORDS;
}
