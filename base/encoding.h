#ifndef BASE_ENCODING_H
#define BASE_ENCODING_H
/* The layout of the bytes of an encoded constant. Its elements are quantised, either in groups that
 * share a scale or in blocks of one of llama.cpp's formats.
 *
 * A tensor's dimensions before `axis` number its rows; the dimensions from `axis` on number the
 * elements of a row. Rows are stored one after the other.
 *
 * In groups, a row is a stream of codes, lowest bits first, padded to a multiple of 32 codes; then
 * the groups' scales; then their zeros, if any; then padding to a multiple of 4 bytes. An element
 * is (code - zero) * scale. If zeros are not stored, they are 2^(bits - 1) for integer codes and 0
 * for float codes. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/dtype.h"

typedef enum encoding_kind { ENCODING_PLAIN = 0, ENCODING_GROUPS, ENCODING_BLOCKS } encoding_kind;
typedef enum code_kind { CODE_INT = 0, CODE_E4M3, CODE_E5M2, CODE_COUNT } code_kind;

typedef const uint8_t *code_bytes;

/* All zero means plain. */
typedef struct encoding {
  uint8_t kind;      /* encoding_kind */
  uint8_t axis;      /* first dimension of a row's elements */
  uint8_t format;    /* blocks: index for block_format_at */
  uint8_t code;      /* groups: code_kind */
  uint8_t bits;      /* groups: bits per code, 2 to 8; 8 for float codes */
  uint8_t scale;     /* groups: dtype of scales and zeros: F32, F16, BF16 */
  uint8_t has_zeros; /* groups */
  uint32_t group;    /* groups: elements that share a scale, a multiple of 16; 0: a whole row */
} encoding;

enum { DECODED_AT_ONCE = 32 };

/* The factors of 32 elements: an element is d * s * code + m * l. Index 0 is for the first 16,
 * index 1 for the others. */
typedef struct code_factors {
  float d[2], m[2];
  int s[2], l[2];
} code_factors;

typedef struct block_format {
  const char *name;
  int elements, bytes;
  /* Writes the codes of elements [32 part, 32 part + 32), as floats. Returns their factors. */
  code_factors (*split)(code_bytes block, int part, float *codes);
  int least, bits;         /* codes range over `bits` bits from `least` on */
  int spans;               /* 2 if s or l change every 16 elements, else 1 */
  bool has_subs, has_lows; /* has s; has m, and l if has_subs */
  bool wide;               /* d is F32; else d and m are F16 */
} block_format;
const block_format *block_format_at(int format);           /* NULL beyond the last format */
bool block_format_find(const char *name, uint8_t *format); /* name: llama.cpp's */

/* Returns the number of bytes of a row with `elements` elements, or 0 on overflow. */
size_t encoding_row_bytes(const encoding *encoding, int64_t elements);
/* These two are for groups. encoding_code_bytes returns the number of bytes of a row's codes, which
 * is also the offset of its scales. encoding_groups returns the number of its scales. */
size_t encoding_code_bytes(const encoding *encoding, int64_t elements);
int64_t encoding_groups(const encoding *encoding, int64_t elements);
/* Decodes elements [32 part, 32 part + 32) of a row; those after its end have code 0. */
void encoding_decode(const encoding *encoding, code_bytes row, int64_t elements, int64_t part,
                     float *values);
/* Splits elements [32 part, 32 part + 32) of a row into codes and factors, as block_format.split
 * does. For groups with zeros, m is -zero * scale; float codes are written as their values. */
code_factors encoding_split(const encoding *encoding, code_bytes row, int64_t elements,
                            int64_t part, float *codes);
/* Converts 32 codes to elements in place. */
void encoding_apply(const code_factors *factors, float *codes);
/* Writes the encoding's name in clave.export's argument `quantize`: "Q4_0", "int4:32:zeros". The
 * text ends with ":f16", ":bf16" or ":f32" if scales differ from the default, which is F16 for
 * groups and F32 for rows. Returns buf. */
const char *encoding_text(const encoding *encoding, char *buf, size_t size);
/* Parses a name that encoding_text writes, and sets the axis to 0. Returns false if it is
 * malformed. Does not check that the verifier accepts the group size. */
bool encoding_parse(const char *text, encoding *out);

#endif
