#ifndef BACKEND_CPU_KERNELS_CONV_CONV_INTEGER_TILES_H
#define BACKEND_CPU_KERNELS_CONV_CONV_INTEGER_TILES_H
/* Convolution of 8-bit integers by a packed weight, in tiles of amx.h's sizes. Inputs are planes of
 * words of four channels; each tap reads the same words at another offset. */
#include "backend/cpu/kernels/conv/conv_window.h"
#include "base/counts.h"

/* Packed weight: (strips of 16 outputs, blocks of 64 channels, taps, 16 outputs, 64 channels)
 * bytes, padded with zeros. */
enum {
  INTEGER_OUTPUTS = 16,
  MAX_INTEGER_OUTPUTS = 32, /* two strips */
  INTEGER_BLOCK = 64,       /* channels */
  INTEGER_TILE_BYTES = INTEGER_OUTPUTS * INTEGER_BLOCK
};
KERNEL(conv_integer_pack, conv_args);

/* True if tiles are faster than the plain weight on this processor. Requires one group. */
bool conv_integer_suits_tiles(const conv_args *args);

static inline int64_t integer_blocks(const conv_args *args) {
  return ceil_div(args->channels, INTEGER_BLOCK);
}
/* Bytes of a strip. */
static inline int64_t integer_strip_bytes(const conv_args *args) {
  return integer_blocks(args) * kernel_size(args) * INTEGER_TILE_BYTES;
}

/* The product of one or two strips of the weight and up to 64 cells. */
typedef struct integer_strip {
  const unsigned char *weight; /* the first strip of the packed weight */
  int64_t strip_bytes;         /* from one strip to the next */
  const uint32_t *words;       /* (blocks * 16, plane), from the first cell's position on */
  int64_t plane, blocks, taps; /* words of a plane; blocks of channels; taps per channel */
  const int64_t *tap_at;       /* (taps): offset from a cell's position to the tap's word */
  const int32_t *begin;        /* (outputs): initial values of the sums; NULL: 0 */
  int outputs, cells;          /* at most MAX_INTEGER_OUTPUTS and 64 */
  bool is_signed;              /* true if the bytes in words are signed */
  bool prefetches;             /* prefetches further tiles of the weight during the first cells */
} integer_strip;
/* Computes sums (MAX_INTEGER_OUTPUTS, 64). Elements without an output or a cell are undefined.
 * Must be called between amx_begin and amx_end if the processor has AMX. */
void integer_strip_multiply(const integer_strip *strip, int32_t *sums);

#endif
