#ifndef BASE_CODE_PANELS_H
#define BASE_CODE_PANELS_H
/* An encoded matrix b (n, k) as products read it: one form for all encodings.
 *
 * Panels of 16 columns, one behind the other, columns beyond the last as zeros. A panel is blocks
 * of up to 256 k, one behind the other, so that a product of one row reads all of it in order. A
 * block has the codes, less the least one, in parts of 32 k, as vectors of 16 words of 32 bits, one
 * for each column: 4 bits: 4 vectors, bits [4 j, 4 j + 4) of vector v are k = 8 v + j; 8 bits: 8
 * vectors, bits [8 j, 8 j + 8) of vector v are k = 4 v + j. Codes beyond k are 0. Then, each 16
 * wide: d and, with lows, m for each `period` spans; s and, with lows, l as signed bytes for each
 * span. An element is d * s * code + m * l (base/encoding.h). Codes that are floats have 8 bits,
 * which are the float's. */
#include "base/encoding.h"

enum {
  CODE_PANEL = 16 /* columns */,
  BLOCK_PARTS = 8 /* at most */,
  BLOCK_SPANS = 2 * BLOCK_PARTS
};

typedef struct code_panels {
  int bits;  /* 4, 8 */
  int code;  /* code_kind */
  int least; /* what is added to a code */
  int spans; /* of a part: 1, or 2 of 16 elements */
  bool has_subs, has_lows;
  bool wide;                /* d and m are F32, else F16 */
  int64_t parts;            /* of a row */
  int block;                /* parts of a block; the last one is filled up */
  int period;               /* spans of a block that share d and m, of which it has a multiple */
  uint8_t row[BLOCK_SPANS]; /* number of the d and m of each: span / period */
  size_t d_at, m_at, s_at, l_at; /* bytes from the block's begin */
  size_t block_bytes;
  size_t bytes; /* of a panel */
} code_panels;

/* Of rows of k > 0 elements. False: encoding has no such form, or sizes overflow. */
bool code_panels_of(const encoding *encoding, int64_t k, code_panels *panels);

/* Bytes from the panel's begin of the block that has a part. */
static inline size_t code_block_at(const code_panels *panels, int64_t part) {
  return (size_t)(part / panels->block) * panels->block_bytes;
}

/* Whether products with rows that are rounded to 8 bits (base/rounded.h) add codes as integers. */
static inline bool code_panels_take_rounded(const code_panels *panels) {
  return panels->code == CODE_INT && !(panels->has_lows && panels->least);
}

#endif
