/* Encodings: one table row for each named block, sizes, decoding of any row. */
#include "base/encoding.h"

#include <string.h>

#include "base/checked.h"

static float half_at(code_bytes p) { return f16_to_f32((uint16_t)(p[0] | p[1] << 8)); }
#define DECODE_HALF(p) half_at(p)
#define FLOAT_OF(u) float_of_bits(u)
#define BITS_OF(f) bits_of_float(f)
#define DECODE_TABLE static const signed char
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
};
enum { N_FORMATS = sizeof formats / sizeof *formats };

const block_format *block_format_at(int format) {
  return format >= 0 && format < N_FORMATS ? &formats[format] : NULL;
}

/* ---------------------------------------------------------------- groups */

static int64_t ceil_div64(int64_t a, int64_t b) { return a / b + (a % b != 0); }

int64_t encoding_groups(const encoding *e, int64_t elements) {
  return e->group ? ceil_div64(elements, e->group) : elements > 0;
}
size_t encoding_code_bytes(const encoding *e, int64_t elements) {
  return (size_t)ceil_div64(elements, DECODED_AT_ONCE) * 4 * e->bits;
}

static size_t groups_row_bytes(const encoding *e, int64_t elements) {
  if (elements > INT64_MAX / 64) return 0;
  size_t factors = (size_t)encoding_groups(e, elements) * dtype_size((dtype)e->scale);
  return (encoding_code_bytes(e, elements) + factors * (e->has_zeros ? 2 : 1) + 3) / 4 * 4;
}

static float factor_at(dtype t, code_bytes factors, int64_t i) {
  uint16_t h;
  float f;
  if (t == DTYPE_F32) return memcpy(&f, factors + 4 * i, sizeof f), f;
  memcpy(&h, factors + 2 * i, sizeof h);
  return t == DTYPE_F16 ? f16_to_f32(h) : bf16_to_f32(h);
}

/* 32 codes of 2 to 8 bits in a stream whose lowest bits come first: eight are `bits` bytes. */
static inline void decode_codes(code_bytes stream, int bits, float *x) {
  for (int eight = 0; eight < 4; eight++, stream += bits, x += 8)
    for (int i = 0; i < 8; i++) {
      const int at = i * bits, first = stream[at / 8] >> at % 8,
                next = at % 8 + bits > 8 ? stream[at / 8 + 1] << (8 - at % 8) : 0;
      x[i] = (float)((first | next) & ((1 << bits) - 1));
    }
}

/* For each number of bits a loop without shifts that it decides. */
static void decode_integers(code_bytes stream, int bits, float *x) {
  if (bits == 2) decode_codes(stream, 2, x);
  if (bits == 3) decode_codes(stream, 3, x);
  if (bits == 4) decode_codes(stream, 4, x);
  if (bits == 5) decode_codes(stream, 5, x);
  if (bits == 6) decode_codes(stream, 6, x);
  if (bits == 7) decode_codes(stream, 7, x);
  if (bits == 8) decode_codes(stream, 8, x);
}

static void decode_stream(const encoding *e, code_bytes stream, float *x) {
  if (e->code == CODE_INT) decode_integers(stream, e->bits, x);
  if (e->code == CODE_E4M3)
    for (int i = 0; i < DECODED_AT_ONCE; i++) x[i] = decode_E4M3(stream[i]);
  if (e->code == CODE_E5M2)
    for (int i = 0; i < DECODED_AT_ONCE; i++) x[i] = decode_E5M2(stream[i]);
}

enum { HALF = DECODED_AT_ONCE / 2 };

/* Scale and zero of the group that element `at` is in, or of the last. */
typedef struct group_factors {
  float scale, zero;
} group_factors;

static group_factors factors_at(const encoding *e, code_bytes row, int64_t elements, int64_t at) {
  code_bytes scales = row + encoding_code_bytes(e, elements);
  int64_t groups = encoding_groups(e, elements), group = e->group ? at / e->group : 0;
  if (group >= groups) group = groups - 1;
  code_bytes zeros = scales + (size_t)groups * dtype_size((dtype)e->scale);
  return (group_factors){.scale = factor_at((dtype)e->scale, scales, group),
                         .zero = e->has_zeros          ? factor_at((dtype)e->scale, zeros, group)
                                 : e->code == CODE_INT ? (float)(1 << (e->bits - 1))
                                                       : 0};
}

static void decode_groups(const encoding *e, code_bytes row, int64_t elements, int64_t part,
                          float *x) {
  decode_stream(e, row + part * 4 * e->bits, x);
  for (int at = 0; at < DECODED_AT_ONCE; at += HALF) {
    group_factors f = factors_at(e, row, elements, part * DECODED_AT_ONCE + at);
    for (int i = at; i < at + HALF; i++) x[i] = (x[i] - f.zero) * f.scale;
  }
}

static code_factors split_groups(const encoding *e, code_bytes row, int64_t elements, int64_t part,
                                 float *codes) {
  code_factors of = scale_of(0);
  decode_stream(e, row + part * 4 * e->bits, codes);
  for (int half = 0; half < 2; half++) {
    group_factors f = factors_at(e, row, elements, part * DECODED_AT_ONCE + half * HALF);
    of.d[half] = f.scale;
    if (e->has_zeros) of.m[half] = -f.zero * f.scale;
    for (int i = half * HALF; i < (half + 1) * HALF && !e->has_zeros; i++) codes[i] -= f.zero;
  }
  return of;
}

/* ---------------------------------------------------------------- any */

size_t encoding_row_bytes(const encoding *e, int64_t elements) {
  if (e->kind == ENCODING_GROUPS) return groups_row_bytes(e, elements);
  const block_format *f = &formats[e->format];
  size_t bytes;
  return mul_size((size_t)f->bytes, (uint64_t)(elements / f->elements), &bytes) ? bytes : 0;
}

code_factors encoding_split(const encoding *e, code_bytes row, int64_t elements, int64_t part,
                            float *codes) {
  if (e->kind == ENCODING_GROUPS) return split_groups(e, row, elements, part, codes);
  const block_format *f = &formats[e->format];
  int parts = f->elements / DECODED_AT_ONCE;
  return f->split(row + part / parts * f->bytes, (int)(part % parts), codes);
}

void encoding_apply(const code_factors *f, float *codes) { apply_factors(f, codes); }

void encoding_decode(const encoding *e, code_bytes row, int64_t elements, int64_t part, float *x) {
  if (e->kind == ENCODING_GROUPS) {
    decode_groups(e, row, elements, part, x);
    return;
  }
  const code_factors f = encoding_split(e, row, elements, part, x);
  apply_factors(&f, x);
}
