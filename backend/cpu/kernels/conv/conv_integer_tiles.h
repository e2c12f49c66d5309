#ifndef BACKEND_CPU_KERNELS_CONV_CONV_INTEGER_TILES_H
#define BACKEND_CPU_KERNELS_CONV_CONV_INTEGER_TILES_H
/* Convolutions of 8-bit integers by a packed weight, in tiles of amx.h's sizes: planes of words of
 * four channels, of which each element of the kernel reads the same words elsewhere. */
#include "backend/cpu/kernels/conv/conv_window.h"
#include "backend/cpu/kernels/support/counts.h"

/* The weight as tiles: (strips of outputs, blocks of channels, taps, 16 outputs, 64 channels),
 * zeros where there are no more. */
enum {
  INTEGER_OUTPUTS = 16,
  MOST_INTEGER_OUTPUTS = 32, /* of two strips */
  INTEGER_BLOCK = 64,        /* channels */
  INTEGER_TILE_BYTES = INTEGER_OUTPUTS * INTEGER_BLOCK
};
KERNEL(conv_integer_pack, conv_args);

/* Whether this processor is faster with the weight as tiles than with it as it is: of one group. */
bool conv_integer_likes_tiles(const conv_args *args);

static inline int64_t integer_blocks(const conv_args *args) {
  return ceil_div(args->channels, INTEGER_BLOCK);
}
/* Bytes of a strip. */
static inline int64_t integer_strip_bytes(const conv_args *args) {
  return integer_blocks(args) * kernel_size(args) * INTEGER_TILE_BYTES;
}

/* One or two strips by 64 cells. */
typedef struct integer_strip {
  const unsigned char *weight;
  int64_t strip_bytes;   /* from a strip's to the next one's */
  const uint32_t *words; /* (blocks * 16, plane) from the first cell's position on */
  int64_t plane, blocks, taps;
  const int64_t *tap_at; /* (taps): from a position to what the tap sees */
  const int32_t *begin;  /* (outputs): what sums begin with; NULL: 0 */
  int outputs, cells;    /* that there are: at most MOST_INTEGER_OUTPUTS, 64 */
  bool is_signed;        /* bytes of words */
  bool asks;             /* for what the first cells' tiles of the weight are followed by */
} integer_strip;
/* sums: (MOST_INTEGER_OUTPUTS, 64): those of outputs and cells that there are, others of any value.
 * Where there is AMX, between amx_begin and amx_end. */
void integer_strip_multiply(const integer_strip *strip, int32_t *sums);

#endif
