#ifndef BACKEND_CPU_KERNELS_CONV_CONV_AMX_WEIGHT_H
#define BACKEND_CPU_KERNELS_CONV_CONV_AMX_WEIGHT_H
/* Weights of rounded convolutions as AMX's tiles take them (amx_sums.h): of each group, strip of
 * AMX_OUTPUTS outputs, step of AMX_WORDS words and half of the strip a tile; zeros where there are
 * no more outputs or words. Steps are, of each block of channels, the elements of the kernel; where
 * there are few channels, words are two neighbours of a row of the kernel, one row after the other.
 */
#include "backend/cpu/kernels/conv/conv_window.h"
#include "backend/cpu/kernels/gemm/amx_sums.h"
#include "backend/cpu/kernels/gemm/pairs.h"
#include "backend/cpu/kernels/support/counts.h"

enum { CONV_MOST_TAPS = 256, CONV_FEW_CHANNELS = 12 /* of fewer most of a block would be zeros */ };
/* Whether rounded convolutions are made by tiles: by sizes and the processor alone. */
bool conv_tiles_fit(int64_t channels, const conv_dim dims[]);
static inline bool conv_is_tiled(const conv_args *p) {
  return conv_is_rounded(p) && conv_tiles_fit(p->channels, p->dims);
}
/* Whether of those words are of rows of the kernel. */
static inline bool conv_is_by_rows(const conv_args *p) { return p->channels < CONV_FEW_CHANNELS; }

static inline int64_t conv_tiled_words(const conv_args *p) {
  return round_up(pairs_of(p->channels), AMX_WORDS);
}
/* Of a row of the kernel; of all. */
static inline int64_t conv_row_words(const conv_args *p) { return pairs_of(p->dims[2].kernel); }
static inline int64_t conv_rows_words(const conv_args *p) {
  return p->channels * p->dims[0].kernel * p->dims[1].kernel * conv_row_words(p);
}
/* Words of a strip. */
static inline int64_t conv_strip_words(const conv_args *p) {
  return AMX_OUTPUTS * (conv_is_by_rows(p) ? round_up(conv_rows_words(p), AMX_WORDS)
                                           : conv_tiled_words(p) * kernel_size(p));
}
static inline int64_t conv_tiled_strips(const conv_args *p) {
  return ceil_div(p->outputs, AMX_OUTPUTS);
}

size_t conv_tiles_bytes(const conv_args *p);
void conv_tiles_pack(const kernel_context *ctx, const conv_args *p, char *to);

#endif
