#ifndef BASE_CODE_PANELS_H
#define BASE_CODE_PANELS_H
/* The layout in which products read an encoded matrix b (n, k). It is the same for all encodings.
 *
 * Panels of 16 columns follow each other; columns beyond the last are zeros. A panel consists of
 * blocks that cover up to 256 values of k, so that a product of one row reads the panel in order. A
 * block begins with the codes minus the least code, in parts of 32 values of k. A part has vectors
 * of 16 words of 32 bits, one word per column:
 *   4 bits: 4 vectors, bits [4 j, 4 j + 4) of vector v are k = 8 v + j;
 *   8 bits: 8 vectors, bits [8 j, 8 j + 8) of vector v are k = 4 v + j.
 * Codes beyond k are 0. The factors follow, each 16 wide: d and, with lows, m for each `period`
 * spans; s and, with lows, l as signed bytes for each span. An element is d * s * code + m * l
 * (base/encoding.h). Float codes have 8 bits, which are those of the float. */
#include "base/encoding.h"

enum {
  CODE_PANEL = 16 /* columns */,
  BLOCK_PARTS = 8 /* most parts per block */,
  BLOCK_SPANS = 2 * BLOCK_PARTS
};

typedef struct code_panels {
  int bits;  /* 4, 8 */
  int code;  /* code_kind */
  int least; /* added to a code */
  int spans; /* spans per part: 1, or 2 of 16 elements */
  bool has_subs, has_lows;
  bool wide;                     /* d and m are F32; else F16 */
  int64_t parts;                 /* parts per row */
  int block;                     /* parts per block; the last block is padded */
  int period;                    /* spans that share d and m; divides the spans of a block */
  uint8_t row[BLOCK_SPANS];      /* index of d and m for each span: span / period */
  size_t d_at, m_at, s_at, l_at; /* byte offsets from the block's start */
  size_t block_bytes;
  size_t bytes; /* bytes per panel */
} code_panels;

/* Computes the layout for rows of k > 0 elements. Returns false if the matrix is not encoded or a
 * row has more than INT32_MAX elements. */
bool code_panels_of(const encoding *encoding, int64_t k, code_panels *panels);

/* Returns the byte offset of a part's block from the start of its panel. */
static inline size_t code_block_at(const code_panels *panels, int64_t part) {
  return (size_t)(part / panels->block) * panels->block_bytes;
}

/* True if products with rows rounded to 8 bits (base/rounded.h) may add codes as integers. */
static inline bool code_panels_take_rounded(const code_panels *panels) {
  return panels->code == CODE_INT && !(panels->has_lows && panels->least);
}

#endif
