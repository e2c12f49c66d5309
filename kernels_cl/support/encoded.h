/* Decodes rows of encoded constants (base/encoding.h), 32 elements at a time. ENCODING names one of
 * the block formats of llama.cpp. If it is undefined, the rows are groups with BITS per code, CODE
 * (INT, E4M3, E5M2), SCALE_TYPE and HAS_ZEROS. */
#include "common.h"

#define ENCODED_PARAMS                                                        \
  __global const uchar *codes, const long codes_offset, const long row_bytes, \
      const long scales_at, const index_t groups, const index_t group
#ifndef ENCODING
#define IS_GROUPS 1
#else
#define IS_GROUPS 0
#endif
#ifndef BITS
#define BITS 8
#endif
#ifndef CODE
#define CODE INT
#endif
#ifndef SCALE_TYPE
#define SCALE_TYPE F16
#endif
#ifndef HAS_ZEROS
#define HAS_ZEROS 0
#endif
#define PART 32 /* elements per part */

typedef __global const uchar *code_bytes;
#define DECODE_HALF(p) LOADF(F16, (__global const half *)(p), 0)
#define DECODE_TABLE __constant char
#define DECODE_WORDS __constant ushort
/* Formats with codebooks have numbers, for comparison; IQ1_M has that of IQ1_S, and others have 0.
 */
#define number_IQ2_XXS 1
#define number_IQ2_XS 2
#define number_IQ2_S 3
#define number_IQ3_XXS 4
#define number_IQ3_S 5
#define number_IQ1_S 6
#define number_IQ1_M 6
#define DECODE_GRID(format) (PASTE(number_, ENCODING) == PASTE(number_, format))
typedef struct code_factors {
  float d[2], m[2];
  int s[2], l[2];
} code_factors;
#include "float8.h"

#include "decode_grids.h"

#include "decode.h"

#define is_int_INT 1
#define is_int_E4M3 0
#define is_int_E5M2 0
#define IS_INTEGER PASTE(is_int_, CODE)

#if IS_GROUPS
typedef struct group_factors {
  float scale, zero;
} group_factors;

/* Returns the factors of the group that contains element `at`, clamped to the last group. A row
 * stores its scales from scales_at on, followed by its zeros. */
static inline group_factors factors_at(code_bytes row, index_t at, long scales_at, index_t groups,
                                       index_t group) {
  __global const STORAGE(SCALE_TYPE) *scales =
      (__global const STORAGE(SCALE_TYPE) *)(row + scales_at);
  const index_t g = min(at / group, groups - 1);
#if HAS_ZEROS
  const float zero = LOADF(SCALE_TYPE, scales, groups + g);
#else
  const float zero = IS_INTEGER ? (float)(1 << (BITS - 1)) : 0.0f;
#endif
  const group_factors f = {LOADF(SCALE_TYPE, scales, g), zero};
  return f;
}

/* Decodes a part of codes without factors. Rows begin at multiples of 4 bytes and a part has BITS
 * words, so whole words are loaded instead of bytes. */
static inline void decode_stream(code_bytes row, index_t part, float *x) {
  __global const uint *words = (__global const uint *)row + (long)part * BITS;
#if IS_INTEGER
  uint w[BITS + 1];
#pragma unroll
  for (int i = 0; i < BITS; i++) w[i] = words[i];
  w[BITS] = 0;
#pragma unroll
  for (int i = 0; i < PART; i++) {
    const int at = i * BITS, shift = at % 32;
    const uint next = shift + BITS > 32 ? w[at / 32 + 1] << (32 - shift) : 0;
    x[i] = (float)((w[at / 32] >> shift | next) & ((1u << BITS) - 1));
  }
#else
#pragma unroll
  for (int i = 0; i < BITS; i++)
#pragma unroll
    for (int j = 0; j < 4; j++) x[4 * i + j] = PASTE(decode_, CODE)(words[i] >> 8 * j & 255);
#endif
}

static inline void decode_part(code_bytes row, index_t part, long scales_at, index_t groups,
                               index_t group, float *x) {
  decode_stream(row, part, x);
  UNROLL_ON_GPU
  for (int at = 0; at < PART; at += 16) {
    const group_factors f = factors_at(row, part * PART + at, scales_at, groups, group);
    UNROLL_ON_GPU
    for (int i = at; i < at + 16; i++) x[i] = (x[i] - f.zero) * f.scale;
  }
}

/* Counterpart of encoding_split in base/encoding.h. */
static inline code_factors split_part(code_bytes row, index_t part, long scales_at, index_t groups,
                                      index_t group, float *x) {
  code_factors of = scale_of(0);
  decode_stream(row, part, x);
  UNROLL_ON_GPU
  for (int half16 = 0; half16 < 2; half16++) {
    const group_factors f = factors_at(row, part * PART + half16 * 16, scales_at, groups, group);
    of.d[half16] = f.scale;
#if HAS_ZEROS
    of.m[half16] = -f.zero * f.scale;
#else
    UNROLL_ON_GPU
    for (int i = half16 * 16; i < half16 * 16 + 16; i++) x[i] -= f.zero;
#endif
  }
  return of;
}
#else
/* groups: parts per block; group: bytes per block. */
static inline code_factors split_part(code_bytes row, index_t part, long scales_at, index_t groups,
                                      index_t group, float *x) {
  (void)scales_at;
  return PASTE(split_, ENCODING)(row + (long)(part / groups) * group, (int)(part % groups), x);
}
static inline void decode_part(code_bytes row, index_t part, long scales_at, index_t groups,
                               index_t group, float *x) {
  const code_factors f = split_part(row, part, scales_at, groups, group, x);
  apply_factors(&f, x);
}
#endif
