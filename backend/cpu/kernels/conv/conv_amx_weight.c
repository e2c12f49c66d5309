/* Packs weights of rounded convolutions as tiles of words. */
#include "backend/cpu/kernels/conv/conv_amx_weight.h"

#include <string.h>

#include "backend/cpu/kernels/conv/conv_weight.h"
#include "backend/cpu/kernels/support/features.h"

enum { BLOCK_CHANNELS = 2 * AMX_WORDS, PACK_GRAIN = 1 /* strips */ };

bool conv_tiles_fit(int64_t channels, const conv_dim dims[]) {
  const int64_t taps = dims[0].kernel * dims[1].kernel * dims[2].kernel;
  if (!cpu_has_amx() || channels < 1 || taps < 1 || taps > CONV_MAX_TAPS) return false;
  return channels >= CONV_FEW_CHANNELS ||
         (dims[2].kernel > 1 && (dims[2].stride == 1 || dims[2].stride % 2 == 0) &&
          dims[2].dilation == 1);
}

size_t conv_amx_packed_bytes(const conv_args *args) {
  return (size_t)(args->groups * conv_tiled_strips(args) * conv_strip_words(args)) *
         sizeof(uint32_t);
}

/* Packs an output's words of channels from `channel` on. Words of consecutive taps are `step` words
 * apart, which is one strip's tiles. */
static void conv_amx_weight_pack_row(const conv_args *args, int64_t row, int64_t channel,
                                     int64_t step, uint32_t *to) {
  const conv_weight all = {args->weight, args->weight_type, args->encoding, conv_weight_row(args)};
  const int64_t taps = kernel_size(args),
                channels = min_i64(BLOCK_CHANNELS, args->channels - channel);
  float some[BLOCK_CHANNELS * CONV_MAX_TAPS], pairs[BLOCK_CHANNELS] = {0};
  conv_weight_load(&all, row, channel * taps, channels * taps, some);
  for (int64_t tap = 0; tap < taps; tap++, to += step) {
    for (int64_t i = 0; i < channels; i++) pairs[i] = some[i * taps + tap];
    pairs_round(pairs, AMX_WORDS, to);
  }
}

/* Packs the words of all rows of an output's kernel. Consecutive steps are `step` words apart. */
static void conv_amx_weight_pack_rows(const conv_args *args, int64_t row, int64_t step,
                                      uint32_t *to) {
  const conv_weight all = {args->weight, args->weight_type, args->encoding, conv_weight_row(args)};
  const int64_t kernel = args->dims[2].kernel, words = conv_row_words(args);
  float some[CONV_FEW_CHANNELS * CONV_MAX_TAPS], pairs[CONV_MAX_TAPS + 1] = {0};
  uint32_t all_words[CONV_FEW_CHANNELS * CONV_MAX_TAPS + AMX_WORDS] = {0};
  conv_weight_load(&all, row, 0, all.row, some);
  for (int64_t i = 0; i < all.row / kernel; i++) {
    memcpy(pairs, some + i * kernel, (size_t)kernel * sizeof *pairs);
    pairs_round(pairs, words, all_words + i * words);
  }
  for (int64_t i = 0; i < conv_rows_words(args); i += AMX_WORDS, to += step)
    memcpy(to, all_words + i, AMX_WORDS * sizeof *to);
}

static void conv_amx_weight_pack_output(const conv_args *args, int64_t row, uint32_t *to) {
  const int64_t step = AMX_OUTPUTS * AMX_WORDS;
  if (conv_is_by_rows(args)) {
    conv_amx_weight_pack_rows(args, row, step, to);
    return;
  }
  for (int64_t c = 0; c < args->channels; c += BLOCK_CHANNELS, to += step * kernel_size(args))
    conv_amx_weight_pack_row(args, row, c, step, to);
}

/* Packs a strip of outputs, one row of the tiles for each. */
static void conv_amx_weight_pack_strip(const conv_args *args, int64_t group, int64_t strip,
                                       uint32_t *to) {
  const int64_t first = strip * AMX_OUTPUTS;
  for (int64_t o = 0; o < min_i64(AMX_OUTPUTS, args->outputs - first); o++)
    conv_amx_weight_pack_output(args, group * args->outputs + first + o, to + o * AMX_WORDS);
}

/* Packs a strip of a transposed convolution, where rows 2 o and 2 o + 1 are columns of output o. */
static void conv_amx_weight_pack_transposed(const conv_args *args, int64_t group, int64_t strip,
                                            uint32_t *to) {
  const conv_weight all = {args->weight, args->weight_type, args->encoding, conv_weight_row(args)};
  const conv_column_pairs pairs = conv_find_column_pairs(args, strip);
  float x[2][AMX_OUTPUTS] = {{0}}; /* two channels */
  uint32_t words[AMX_OUTPUTS];
  for (int64_t c = 0; c < args->channels; c++) {
    for (int64_t o = 0; o < pairs.outputs; o++)
      conv_weight_load(&all, group * args->channels + c,
                       (pairs.first + o) * kernel_size(args) + 2 * pairs.y, 2, x[c % 2] + 2 * o);
    if (c % 2 == 0 && c + 1 < args->channels) continue;
    pairs_join(x[0], c % 2 ? x[1] : NULL, AMX_OUTPUTS, words);
    uint32_t *step = to + c / 2 / AMX_WORDS * 2 * AMX_TILE_WORDS + c / 2 % AMX_WORDS;
    for (int64_t row = 0; row < AMX_OUTPUTS; row++) step[row * AMX_WORDS] = words[row];
  }
}

typedef struct packing {
  const conv_args *args;
  uint32_t *to;
} packing;

static void conv_amx_weight_pack_strips(void *ctx, int64_t begin, int64_t end) {
  const packing *packing = ctx;
  const conv_args *args = packing->args;
  const int64_t strips = conv_tiled_strips(args), words = conv_strip_words(args);
  for (int64_t i = begin; i < end; i++) {
    uint32_t *to = packing->to + i * words;
    if (args->transposed || (i % strips + 1) * AMX_OUTPUTS > args->outputs)
      memset(to, 0, (size_t)words * sizeof *to);
    (args->transposed ? conv_amx_weight_pack_transposed : conv_amx_weight_pack_strip)(
        args, i / strips, i % strips, to);
  }
}

void conv_amx_pack(const kernel_context *ctx, const conv_args *args, char *to) {
  packing packing = {args, (uint32_t *)(void *)to};
  ctx->parallel_for(ctx->pool, args->groups * conv_tiled_strips(args), PACK_GRAIN,
                    conv_amx_weight_pack_strips, &packing);
}
