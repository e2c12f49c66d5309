#ifndef BACKEND_CPU_KERNELS_CONV_CONV_AMX_WEIGHT_H
#define BACKEND_CPU_KERNELS_CONV_CONV_AMX_WEIGHT_H
/* Packed weights of rounded convolutions, as tiles of AMX (amx_sums.h): (groups, strips, steps, 2,
 * 16, 16) words. A strip is AMX_OUTPUTS outputs, a step AMX_WORDS words, and each half of a strip
 * is a tile. Words without an output or a channel are zeros. Steps run over the taps within a block
 * of channels. With few channels a word is two neighbours of a row of the kernel, and rows follow
 * each other. A strip of a transposed convolution has both columns of a row of the kernel, for
 * AMX_OUTPUTS / 2 outputs. */
#include "backend/cpu/kernels/conv/conv_window.h"
#include "backend/cpu/kernels/gemm/amx_sums.h"
#include "backend/cpu/kernels/gemm/pairs.h"
#include "base/counts.h"

enum { CONV_MAX_TAPS = 256, CONV_FEW_CHANNELS = 12 /* fewer leave blocks mostly zeros */ };
/* Returns true if this processor has AMX and it can compute rounded convolutions of these sizes. */
bool conv_tiles_fit(int64_t channels, const conv_dim dims[]);
/* Returns true if the convolution rounds its operands and AMX multiplies them. */
static inline bool conv_is_tiled(const conv_args *args) {
  return conv_is_rounded(args) && conv_tiles_fit(args->channels, args->dims);
}
/* Returns true if a word is two neighbours of a row of the kernel, not two channels. */
static inline bool conv_is_by_rows(const conv_args *args) {
  return args->channels < CONV_FEW_CHANNELS;
}

/* Words of all channels of a tap, rounded up to whole steps. */
static inline int64_t conv_tiled_words(const conv_args *args) {
  return round_up(pairs_of(args->channels), AMX_WORDS);
}
/* Words per row of the kernel, and of all rows. */
static inline int64_t conv_row_words(const conv_args *args) {
  return pairs_of(args->dims[2].kernel);
}
static inline int64_t conv_rows_words(const conv_args *args) {
  return args->channels * args->dims[0].kernel * args->dims[1].kernel * conv_row_words(args);
}
/* A strip of a transposed convolution, which has row y of the kernel for outputs [first, first +
 * outputs) of a group. */
typedef struct conv_column_pairs {
  int64_t y, first, outputs;
} conv_column_pairs;
/* Returns strip `strip` of a group. */
static inline conv_column_pairs conv_find_column_pairs(const conv_args *args, int64_t strip) {
  const int64_t row_strips = ceil_div(args->outputs, AMX_OUTPUTS / 2),
                first = strip % row_strips * AMX_OUTPUTS / 2;
  return (conv_column_pairs){strip / row_strips, first,
                             min_i64(AMX_OUTPUTS / 2, args->outputs - first)};
}

/* Words per strip, and strips per group. */
static inline int64_t conv_strip_words(const conv_args *args) {
  if (args->transposed) return AMX_OUTPUTS * conv_tiled_words(args);
  return AMX_OUTPUTS * (conv_is_by_rows(args) ? round_up(conv_rows_words(args), AMX_WORDS)
                                              : conv_tiled_words(args) * kernel_size(args));
}
static inline int64_t conv_tiled_strips(const conv_args *args) {
  if (args->transposed) return args->dims[1].kernel * ceil_div(args->outputs, AMX_OUTPUTS / 2);
  return ceil_div(args->outputs, AMX_OUTPUTS);
}

/* Packs the weight to conv_amx_packed_bytes bytes at `to`. */
size_t conv_amx_packed_bytes(const conv_args *args);
void conv_amx_pack(const kernel_context *ctx, const conv_args *args, char *to);

#endif
