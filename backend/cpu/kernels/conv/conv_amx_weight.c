/* Weights of rounded convolutions in tiles of words. */
#include "backend/cpu/kernels/conv/conv_amx_weight.h"

#include <string.h>

#include "backend/cpu/kernels/conv/conv_weight.h"
#include "backend/cpu/kernels/support/features.h"

enum { BLOCK_CHANNELS = 2 * AMX_WORDS, PACK_GRAIN = 1 /* strips */ };

bool conv_tiles_fit(int64_t channels, const conv_dim dims[]) {
  const int64_t taps = dims[0].kernel * dims[1].kernel * dims[2].kernel;
  if (!cpu_has_amx() || channels < 1 || taps < 1 || taps > CONV_MOST_TAPS) return false;
  return channels >= CONV_FEW_CHANNELS ||
         (dims[2].kernel > 1 && (dims[2].stride == 1 || dims[2].stride % 2 == 0) &&
          dims[2].dilation == 1);
}

size_t conv_amx_packed_bytes(const conv_args *p) {
  return (size_t)(p->groups * conv_tiled_strips(p) * conv_strip_words(p)) * sizeof(uint32_t);
}

/* Words of an output's channels from `channel` on, of all taps: those of a tap begin a strip's
 * tiles of it later, `step` words. */
static void pack_row(const conv_args *p, int64_t row, int64_t channel, int64_t step, uint32_t *to) {
  const conv_weight all = {p->weight, p->weight_type, p->encoding, conv_weight_row(p)};
  const int64_t taps = kernel_size(p), channels = least(BLOCK_CHANNELS, p->channels - channel);
  float some[BLOCK_CHANNELS * CONV_MOST_TAPS], pairs[BLOCK_CHANNELS] = {0};
  conv_weight_load(&all, row, channel * taps, channels * taps, some);
  for (int64_t tap = 0; tap < taps; tap++, to += step) {
    for (int64_t i = 0; i < channels; i++) pairs[i] = some[i * taps + tap];
    pairs_round(pairs, AMX_WORDS, to);
  }
}

/* Words of all rows of an output's kernel; those of a step begin `step` words after the last's. */
static void pack_rows(const conv_args *p, int64_t row, int64_t step, uint32_t *to) {
  const conv_weight all = {p->weight, p->weight_type, p->encoding, conv_weight_row(p)};
  const int64_t kernel = p->dims[2].kernel, words = conv_row_words(p);
  float some[CONV_FEW_CHANNELS * CONV_MOST_TAPS], pairs[CONV_MOST_TAPS + 1] = {0};
  uint32_t all_words[CONV_FEW_CHANNELS * CONV_MOST_TAPS + AMX_WORDS] = {0};
  conv_weight_load(&all, row, 0, all.row, some);
  for (int64_t i = 0; i < all.row / kernel; i++) {
    memcpy(pairs, some + i * kernel, (size_t)kernel * sizeof *pairs);
    pairs_round(pairs, words, all_words + i * words);
  }
  for (int64_t i = 0; i < conv_rows_words(p); i += AMX_WORDS, to += step)
    memcpy(to, all_words + i, AMX_WORDS * sizeof *to);
}

static void pack_output(const conv_args *p, int64_t row, uint32_t *to) {
  const int64_t step = AMX_OUTPUTS * AMX_WORDS;
  if (conv_is_by_rows(p)) {
    pack_rows(p, row, step, to);
    return;
  }
  for (int64_t c = 0; c < p->channels; c += BLOCK_CHANNELS, to += step * kernel_size(p))
    pack_row(p, row, c, step, to);
}

/* A strip of outputs, one row of tiles for each. */
static void pack_strip(const conv_args *p, int64_t group, int64_t strip, uint32_t *to) {
  const int64_t first = strip * AMX_OUTPUTS;
  for (int64_t o = 0; o < least(AMX_OUTPUTS, p->outputs - first); o++)
    pack_output(p, group * p->outputs + first + o, to + o * AMX_WORDS);
}

/* A strip of a transposed convolution: rows 2 o and 2 o + 1 are the two columns of an output. */
static void pack_transposed(const conv_args *p, int64_t group, int64_t strip, uint32_t *to) {
  const conv_weight all = {p->weight, p->weight_type, p->encoding, conv_weight_row(p)};
  const conv_column_pairs s = conv_find_column_pairs(p, strip);
  float x[2][AMX_OUTPUTS] = {{0}}; /* of two channels */
  uint32_t words[AMX_OUTPUTS];
  for (int64_t c = 0; c < p->channels; c++) {
    for (int64_t o = 0; o < s.outputs; o++)
      conv_weight_load(&all, group * p->channels + c, (s.first + o) * kernel_size(p) + 2 * s.y, 2,
                       x[c % 2] + 2 * o);
    if (c % 2 == 0 && c + 1 < p->channels) continue;
    pairs_join(x[0], c % 2 ? x[1] : NULL, AMX_OUTPUTS, words);
    uint32_t *step = to + c / 2 / AMX_WORDS * 2 * AMX_TILE_WORDS + c / 2 % AMX_WORDS;
    for (int64_t row = 0; row < AMX_OUTPUTS; row++) step[row * AMX_WORDS] = words[row];
  }
}

typedef struct packing {
  const conv_args *p;
  uint32_t *to;
} packing;

static void pack_strips(void *ctx, int64_t begin, int64_t end) {
  const packing *k = ctx;
  const conv_args *p = k->p;
  const int64_t strips = conv_tiled_strips(p), words = conv_strip_words(p);
  for (int64_t i = begin; i < end; i++) {
    uint32_t *to = k->to + i * words;
    if (p->transposed || (i % strips + 1) * AMX_OUTPUTS > p->outputs)
      memset(to, 0, (size_t)words * sizeof *to);
    (p->transposed ? pack_transposed : pack_strip)(p, i / strips, i % strips, to);
  }
}

void conv_amx_pack(const kernel_context *ctx, const conv_args *p, char *to) {
  packing k = {p, (uint32_t *)(void *)to};
  ctx->parallel_for(ctx->pool, p->groups * conv_tiled_strips(p), PACK_GRAIN, pack_strips, &k);
}
