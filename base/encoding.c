/* Encodings: a table of block formats, the sizes of rows, and decoding. */
#include "base/encoding.h"

#include <string.h>

#include "base/checked.h"

static float half_at(code_bytes p) { return f16_to_f32((uint16_t)(p[0] | p[1] << 8)); }
#define DECODE_HALF(p) half_at(p)
#define FLOAT_OF(u) float_of_bits(u)
#define BITS_OF(f) bits_of_float(f)
#define DECODE_TABLE static const signed char
#define DECODE_WORDS static const uint16_t
#define DECODE_GRID(format) 1
#include "base/decode_grids.h"

#include "base/decode.h"
#include "base/float8.h"

#define BLOCK(name, elements, bytes, ...) \
  { #name, elements, bytes, split_##name, __VA_ARGS__ }
static const block_format formats[] = {
    /* least, bits, spans, subs, lows, wide */
    BLOCK(Q4_0, 32, 18, -8, 4, 1, false, false, false),
    BLOCK(Q4_1, 32, 20, 0, 4, 1, false, true, false),
    BLOCK(Q5_0, 32, 22, -16, 5, 1, false, false, false),
    BLOCK(Q5_1, 32, 24, 0, 5, 1, false, true, false),
    BLOCK(Q8_0, 32, 34, -128, 8, 1, false, false, false),
    BLOCK(Q2_K, 256, 84, 0, 2, 2, true, true, false),
    BLOCK(Q3_K, 256, 110, -4, 3, 2, true, false, false),
    BLOCK(Q4_K, 256, 144, 0, 4, 1, true, true, false),
    BLOCK(Q5_K, 256, 176, 0, 5, 1, true, true, false),
    BLOCK(Q6_K, 256, 210, -32, 6, 2, true, false, false),
    BLOCK(IQ4_NL, 32, 18, -127, 8, 1, false, false, false),
    BLOCK(IQ4_XS, 256, 136, -127, 8, 1, true, false, false),
    BLOCK(TQ1_0, 256, 54, -1, 2, 1, false, false, false),
    BLOCK(TQ2_0, 256, 66, -1, 2, 1, false, false, false),
    BLOCK(MXFP4, 32, 17, -12, 5, 1, false, false, true),
    BLOCK(IQ2_XXS, 256, 66, -43, 8, 1, true, false, true),
    BLOCK(IQ2_XS, 256, 74, -43, 8, 2, true, false, true),
    BLOCK(IQ2_S, 256, 82, -43, 8, 2, true, false, true),
    BLOCK(IQ3_XXS, 256, 98, -62, 8, 1, true, false, true),
    BLOCK(IQ3_S, 256, 110, 0, 4, 1, true, true, true),
    BLOCK(IQ1_S, 256, 50, -9, 5, 1, true, false, true),
    BLOCK(IQ1_M, 256, 56, -9, 5, 2, true, false, true),
};
enum { N_FORMATS = sizeof formats / sizeof *formats };

const block_format *block_format_at(int format) {
  return format >= 0 && format < N_FORMATS ? &formats[format] : NULL;
}

/* ---------------------------------------------------------------- groups */

static int64_t ceil_div64(int64_t a, int64_t b) { return a / b + (a % b != 0); }

int64_t encoding_groups(const encoding *encoding, int64_t elements) {
  return encoding->group ? ceil_div64(elements, encoding->group) : elements > 0;
}
size_t encoding_code_bytes(const encoding *encoding, int64_t elements) {
  return (size_t)ceil_div64(elements, DECODED_AT_ONCE) * 4 * encoding->bits;
}

static size_t groups_row_bytes(const encoding *encoding, int64_t elements) {
  if (elements > INT64_MAX / 64) return 0;
  size_t factors = (size_t)encoding_groups(encoding, elements) * dtype_size((dtype)encoding->scale);
  return (encoding_code_bytes(encoding, elements) + factors * (encoding->has_zeros ? 2 : 1) + 3) /
         4 * 4;
}

static float factor_at(dtype t, code_bytes factors, int64_t i) {
  uint16_t h;
  float f;
  if (t == DTYPE_F32) return memcpy(&f, factors + 4 * i, sizeof f), f;
  memcpy(&h, factors + 2 * i, sizeof h);
  return t == DTYPE_F16 ? f16_to_f32(h) : bf16_to_f32(h);
}

/* Decodes 32 codes from a stream with the lowest bits first. Eight codes are `bits` bytes. */
static inline void decode_codes(code_bytes stream, int bits, float *values) {
  for (int eight = 0; eight < 4; eight++, stream += bits, values += 8)
    for (int i = 0; i < 8; i++) {
      const int at = i * bits, first = stream[at / 8] >> at % 8,
                next = at % 8 + bits > 8 ? stream[at / 8 + 1] << (8 - at % 8) : 0;
      values[i] = (float)((first | next) & ((1 << bits) - 1));
    }
}

/* Specialises the loop for each number of bits, so that all shifts are constants. */
static void decode_integers(code_bytes stream, int bits, float *values) {
  if (bits == 2) decode_codes(stream, 2, values);
  if (bits == 3) decode_codes(stream, 3, values);
  if (bits == 4) decode_codes(stream, 4, values);
  if (bits == 5) decode_codes(stream, 5, values);
  if (bits == 6) decode_codes(stream, 6, values);
  if (bits == 7) decode_codes(stream, 7, values);
  if (bits == 8) decode_codes(stream, 8, values);
}

static void decode_stream(const encoding *encoding, code_bytes stream, float *values) {
  if (encoding->code == CODE_INT) decode_integers(stream, encoding->bits, values);
  if (encoding->code == CODE_E4M3)
    for (int i = 0; i < DECODED_AT_ONCE; i++) values[i] = decode_E4M3(stream[i]);
  if (encoding->code == CODE_E5M2)
    for (int i = 0; i < DECODED_AT_ONCE; i++) values[i] = decode_E5M2(stream[i]);
}

enum { HALF = DECODED_AT_ONCE / 2 };

/* The scale and zero of one group. */
typedef struct group_factors {
  float scale, zero;
} group_factors;

static group_factors factors_at(const encoding *encoding, code_bytes row, int64_t elements,
                                int64_t at) {
  code_bytes scales = row + encoding_code_bytes(encoding, elements);
  int64_t groups = encoding_groups(encoding, elements),
          group = encoding->group ? at / encoding->group : 0;
  if (group >= groups) group = groups - 1;
  code_bytes zeros = scales + (size_t)groups * dtype_size((dtype)encoding->scale);
  return (group_factors){.scale = factor_at((dtype)encoding->scale, scales, group),
                         .zero = encoding->has_zeros
                                     ? factor_at((dtype)encoding->scale, zeros, group)
                                 : encoding->code == CODE_INT ? (float)(1 << (encoding->bits - 1))
                                                              : 0};
}

static void decode_groups(const encoding *encoding, code_bytes row, int64_t elements, int64_t part,
                          float *values) {
  decode_stream(encoding, row + part * 4 * encoding->bits, values);
  for (int at = 0; at < DECODED_AT_ONCE; at += HALF) {
    group_factors factors = factors_at(encoding, row, elements, part * DECODED_AT_ONCE + at);
    for (int i = at; i < at + HALF; i++) values[i] = (values[i] - factors.zero) * factors.scale;
  }
}

static code_factors split_groups(const encoding *encoding, code_bytes row, int64_t elements,
                                 int64_t part, float *codes) {
  code_factors of = scale_of(0);
  decode_stream(encoding, row + part * 4 * encoding->bits, codes);
  for (int half = 0; half < 2; half++) {
    group_factors factors =
        factors_at(encoding, row, elements, part * DECODED_AT_ONCE + half * HALF);
    of.d[half] = factors.scale;
    if (encoding->has_zeros) of.m[half] = -factors.zero * factors.scale;
    for (int i = half * HALF; i < (half + 1) * HALF && !encoding->has_zeros; i++)
      codes[i] -= factors.zero;
  }
  return of;
}

/* ---------------------------------------------------------------- groups and blocks */

size_t encoding_row_bytes(const encoding *encoding, int64_t elements) {
  if (encoding->kind == ENCODING_GROUPS) return groups_row_bytes(encoding, elements);
  const block_format *format = &formats[encoding->format];
  size_t bytes;
  return mul_size((size_t)format->bytes, (uint64_t)(elements / format->elements), &bytes) ? bytes
                                                                                          : 0;
}

code_factors encoding_split(const encoding *encoding, code_bytes row, int64_t elements,
                            int64_t part, float *codes) {
  if (encoding->kind == ENCODING_GROUPS) return split_groups(encoding, row, elements, part, codes);
  const block_format *format = &formats[encoding->format];
  int parts = format->elements / DECODED_AT_ONCE;
  return format->split(row + part / parts * format->bytes, (int)(part % parts), codes);
}

void encoding_apply(const code_factors *factors, float *codes) { apply_factors(factors, codes); }

void encoding_decode(const encoding *encoding, code_bytes row, int64_t elements, int64_t part,
                     float *values) {
  if (encoding->kind == ENCODING_GROUPS) {
    decode_groups(encoding, row, elements, part, values);
    return;
  }
  const code_factors factors = encoding_split(encoding, row, elements, part, values);
  apply_factors(&factors, values);
}
