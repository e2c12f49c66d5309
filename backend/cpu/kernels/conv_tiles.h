#ifndef BACKEND_CPU_KERNELS_CONV_TILES_H
#define BACKEND_CPU_KERNELS_CONV_TILES_H
/* Weights of rounded convolutions as AMX's tiles take them (amx_sums.h): of each group, strip of
 * AMX_OUTPUTS outputs, block of AMX_WORDS words of channels, element of the kernel and half of the
 * strip a tile; zeros where there are no more outputs or channels. */
#include "backend/cpu/kernels/amx_sums.h"
#include "backend/cpu/kernels/conv_window.h"
#include "backend/cpu/kernels/counts.h"
#include "backend/cpu/kernels/pairs.h"

enum { CONV_MOST_TAPS = 64 };
/* Whether a rounded convolution is made by tiles: by its sizes and the processor alone. */
bool conv_tiles_fit(int64_t channels, int64_t taps);
static inline bool conv_is_tiled(const conv_args *p) {
  return conv_is_rounded(p) && conv_tiles_fit(p->channels, kernel_size(p));
}

static inline int64_t conv_tiled_words(const conv_args *p) {
  return round_up(pairs_of(p->channels), AMX_WORDS);
}
/* Words of a strip. */
static inline int64_t conv_strip_words(const conv_args *p) {
  return AMX_OUTPUTS * conv_tiled_words(p) * kernel_size(p);
}
static inline int64_t conv_tiled_strips(const conv_args *p) {
  return ceil_div(p->outputs, AMX_OUTPUTS);
}

size_t conv_tiles_bytes(const conv_args *p);
void conv_tiles_pack(const kernel_context *ctx, const conv_args *p, char *to);

#endif
