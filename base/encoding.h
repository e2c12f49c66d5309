#ifndef BASE_ENCODING_H
#define BASE_ENCODING_H
/* How the elements of a constant lie in its bytes where they are not plain: quantised, in groups
 * that share a scale, or in one of llama.cpp's named blocks.
 *
 * A tensor's dimensions before `axis` number its rows, those from `axis` on are a row's elements.
 * Rows lie one behind the other. Groups: a row holds a stream of codes, lowest bits first, padded
 * to a multiple of 32 codes, then a scale for each group, then a zero for each, then bytes up to a
 * multiple of 4; an element is (code - zero) * scale, where groups without zeros have half the
 * number of codes for one (integers) or 0 (floats). */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/dtype.h"

typedef enum encoding_kind { ENCODING_PLAIN = 0, ENCODING_GROUPS, ENCODING_BLOCKS } encoding_kind;
typedef enum code_kind { CODE_INT = 0, CODE_E4M3, CODE_E5M2, CODE_COUNT } code_kind;

typedef const uint8_t *code_bytes;

/* All zero: plain. */
typedef struct encoding {
  uint8_t kind;      /* encoding_kind */
  uint8_t axis;      /* rows are of the dimensions from here on */
  uint8_t format;    /* blocks: of block_format_at */
  uint8_t code;      /* groups: code_kind */
  uint8_t bits;      /* groups: 2 to 8, of a code; floats have 8 */
  uint8_t scale;     /* groups: dtype of scales and zeros: F32, F16, BF16 */
  uint8_t has_zeros; /* groups */
  uint32_t group;    /* groups: elements that share a scale, a multiple of 16; 0: all of a row */
} encoding;

enum { DECODED_AT_ONCE = 32 };

/* What codes become elements by: d * s * code + m * l; each of the first 16 of 32 elements, and of
 * the others. */
typedef struct code_factors {
  float d[2], m[2];
  int s[2], l[2];
} code_factors;

typedef struct block_format {
  const char *name;
  int elements, bytes;
  /* Codes, which are integers, of elements [32 part, 32 part + 32) of a block. */
  code_factors (*split)(code_bytes block, int part, float *codes);
  int least, bits;         /* codes are `least` and what so many bits hold */
  int spans;               /* 2: s or l change every 16 elements */
  bool has_subs, has_lows; /* s and l; m and l */
  bool wide;               /* d is F32; else it and m are F16s */
} block_format;
const block_format *block_format_at(int format);           /* NULL: beyond the last */
bool block_format_find(const char *name, uint8_t *format); /* by llama.cpp's name */

/* Bytes of a row of `elements`; 0 on overflow. */
size_t encoding_row_bytes(const encoding *encoding, int64_t elements);
/* Groups: the bytes of a row's codes, behind which its scales lie, and the number of those. */
size_t encoding_code_bytes(const encoding *encoding, int64_t elements);
int64_t encoding_groups(const encoding *encoding, int64_t elements);
/* Elements [32 part, 32 part + 32) of a row of `elements`, behind the last as codes of 0 make them.
 */
void encoding_decode(const encoding *encoding, code_bytes row, int64_t elements, int64_t part,
                     float *values);
/* The codes and factors of these elements, as of block_format; groups with zeros have those in m,
 * codes that are floats are those. */
code_factors encoding_split(const encoding *encoding, code_bytes row, int64_t elements,
                            int64_t part, float *codes);
/* 32 codes as elements. */
void encoding_apply(const code_factors *factors, float *codes);
/* "Q4_0", "int4:32:zeros", as clave.export's quantize= has it, with ":f16", ":bf16" or ":f32" where
 * scales are not F16 of groups and F32 of rows; returns buf. */
const char *encoding_text(const encoding *encoding, char *buf, size_t size);
/* The encoding of such a text, its axis 0. Whether groups have a size that the verifier takes is
 * not checked. */
bool encoding_parse(const char *text, encoding *out);

#endif
