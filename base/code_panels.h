#ifndef BASE_CODE_PANELS_H
#define BASE_CODE_PANELS_H
/* The layout in which matrix products read an encoded matrix b (n, k). All encodings share it.
 *
 * A panel has 16 columns; those after the matrix's last are zeros. A panel consists of blocks of up
 * to 256 values of k, so that a product of one row reads it sequentially. A block begins with its
 * codes, minus the encoding's smallest code, in parts of 32 values of k. A part consists of vectors
 * of 16 words of 32 bits, one word per column:
 *   4 bits: 4 vectors, bits [4 j, 4 j + 4) of vector v are k = 8 v + j;
 *   8 bits: 8 vectors, bits [8 j, 8 j + 8) of vector v are k = 4 v + j.
 * Codes beyond k are 0. Vectors of 16 factors follow: d, and m if has_lows, for each `period`
 * spans; if has_subs, s, and l if has_lows, as signed bytes for each span. An element is d * s *
 * code + m * l (base/encoding.h). A float code is the 8 bits of the float. */
#include "base/encoding.h"

enum {
  CODE_PANEL = 16 /* columns */,
  CODE_LINE = 64, /* bytes of which blocks are multiples; they end with padding */
  BLOCK_PARTS = 8 /* maximum parts per block */,
  BLOCK_SPANS = 2 * BLOCK_PARTS
};

typedef struct code_panels {
  int bits;  /* 4, 8 */
  int code;  /* code_kind */
  int least; /* the smallest code, to be added to a stored code */
  int spans; /* spans per part: 1, or 2 of 16 elements */
  bool has_subs, has_lows;
  bool wide;                     /* d and m are F32; else F16 */
  int64_t parts;                 /* parts per row */
  int block;                     /* parts per block; the last block is padded */
  int period;                    /* spans that share d and m; divides the spans of a block */
  uint8_t row[BLOCK_SPANS];      /* by span: index of its d and m, which is span / period */
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
static inline bool code_panels_accept_rounded(const code_panels *panels) {
  return panels->code == CODE_INT && !(panels->has_lows && panels->least);
}

#endif
