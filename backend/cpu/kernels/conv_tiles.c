/* Weights of rounded convolutions in tiles of words. */
#include "backend/cpu/kernels/conv_tiles.h"

#include "backend/cpu/kernels/conv_weight.h"
#include "backend/cpu/kernels/features.h"

enum {
  LEAST_CHANNELS = 12, /* of fewer a block of words is mostly zeros */
  BLOCK_CHANNELS = 2 * AMX_WORDS,
  PACK_GRAIN = 1 /* strips */
};

bool conv_tiles_fit(int64_t channels, int64_t taps) {
  return cpu_has_amx() && channels >= LEAST_CHANNELS && taps > 0 && taps <= CONV_MOST_TAPS;
}

size_t conv_tiles_bytes(const conv_args *p) {
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

typedef struct packing {
  const conv_args *p;
  uint32_t *to;
} packing;

static void pack_strips(void *ctx, int64_t begin, int64_t end) {
  const packing *k = ctx;
  const conv_args *p = k->p;
  const int64_t strips = conv_tiled_strips(p), words = conv_strip_words(p),
                step = AMX_OUTPUTS * AMX_WORDS;
  for (int64_t i = begin; i < end; i++) {
    const int64_t group = i / strips, first = i % strips * AMX_OUTPUTS;
    uint32_t *to = k->to + i * words;
    for (int64_t w = 0; first + AMX_OUTPUTS > p->outputs && w < words; w++) to[w] = 0;
    for (int64_t c = 0; c < p->channels; c += BLOCK_CHANNELS, to += step * kernel_size(p))
      for (int64_t o = 0; o < least(AMX_OUTPUTS, p->outputs - first); o++)
        pack_row(p, group * p->outputs + first + o, c, step, to + o * AMX_WORDS);
  }
}

void conv_tiles_pack(const kernel_context *ctx, const conv_args *p, char *to) {
  packing k = {p, (uint32_t *)(void *)to};
  ctx->parallel_for(ctx->pool, p->groups * conv_tiled_strips(p), PACK_GRAIN, pack_strips, &k);
}
