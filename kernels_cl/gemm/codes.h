/* Layout of panels of codes (base/code_panels.h), described by CODE_BITS (4 or 8), LEAST, SPANS,
 * HAS_SUBS, HAS_LOWS, BLOCK, PERIOD, and WIDE_FACTORS, which is 1 if d and m are F32. FLOAT_CODES:
 * 0, or the mantissa bits of codes that are floats, 3 for E4M3 and 2 for E5M2. */
#include "common.h"
#ifndef CODE_BITS
#define CODE_BITS 4
#define LEAST 0
#define SPANS 1
#define HAS_SUBS 0
#define HAS_LOWS 0
#define WIDE_FACTORS 0
#define BLOCK 8
#define PERIOD 1
#define FLOAT_CODES 0
#endif
#define PANEL 16
#define PART 32 /* k per part */
#define VECTORS CODE_BITS
#define CODES (32 / CODE_BITS) /* codes per word */
#define VECTOR_BYTES (PANEL * 4)
#define PART_BYTES (VECTORS * VECTOR_BYTES)
/* Sizes and offsets of the sections of a block. */
#define FACTOR_BYTES (BLOCK * SPANS / PERIOD * PANEL * (WIDE_FACTORS ? 4 : 2))
#define SUB_BYTES (HAS_SUBS * BLOCK * SPANS * PANEL)
#define D_AT (BLOCK * PART_BYTES)
#define M_AT (D_AT + FACTOR_BYTES)
#define S_AT (M_AT + HAS_LOWS * FACTOR_BYTES)
#define L_AT (S_AT + SUB_BYTES)
#define LINE_BYTES 64
#define BLOCK_BYTES ((L_AT + HAS_LOWS * SUB_BYTES + LINE_BYTES - 1) / LINE_BYTES * LINE_BYTES)
/* Address of the block of a panel that contains a part. */
#define BLOCK_OF(panel, part) ((panel) + (long)((part) / BLOCK) * BLOCK_BYTES)

#define CODES_PARAMS \
  __global const uchar *b, const long b_offset, const long panel_bytes, const index_t parts

#if FLOAT_CODES
#define MOVE (23 - FLOAT_CODES)
#if FLOAT_CODES == 3
#define EXPONENTS (120 << 23)
#define SPECIAL (127 << MOVE)
#define SMALLEST 0x1p-6f
#else
#define EXPONENTS (112 << 23)
#define SPECIAL (124 << MOVE)
#define SMALLEST 0x1p-14f
#endif
#define NORMAL (1 << 23)
/* Returns byte j of the words, an 8-bit float, as float. Exponent and mantissa are shifted into
 * place and the exponent bias is adjusted. Codes below NORMAL are subnormal: their exponent is
 * raised by one, then the implicit first bit is subtracted. Codes from SPECIAL on are infinite or
 * NaN. */
static inline float16 float_codes(uint16 w, int j) {
  const int16 code = as_int16(w >> (uint16)(8 * j)), size = (code & 127) << MOVE;
  const int16 small = size < NORMAL;
  const int16 bits =
      (size + EXPONENTS + (small & NORMAL)) | ((size >= SPECIAL) & (int16)0x7f800000);
  const float16 x = as_float16(bits) - as_float16(small & as_int(SMALLEST));
  return as_float16(as_int16(x) | (code & 128) << 24);
}
#define CODE_OF(w, j) float_codes(w, j)
#else
/* Converts the codes of one k to floats and adds LEAST. The codes are the bits [at, at + CODE_BITS)
 * of the words, at <= 16. It ORs a code into the mantissa of a float whose exponent makes the bit
 * at `at` worth 1, then subtracts that float, which is exact. */
#define CODE_MASK ((1u << CODE_BITS) - 1)
#define CODE_AT(w, at)                                                               \
  (as_float16(((w) & (uint16)(CODE_MASK << (at))) | (uint16)((150u - (at)) << 23)) - \
   ((float)(1 << (23 - (at))) - (float)LEAST))
/* Codes below bit 20 are converted in place; others are shifted down by 20 or 16 bits first. */
#if CODE_BITS == 4
#define LOW_CODES 5
#else
#define LOW_CODES 2
#endif
#define CODE_OF(w, j)                          \
  ((j) < LOW_CODES ? CODE_AT(w, (j)*CODE_BITS) \
                   : CODE_AT((w) >> (uint16)(LOW_CODES * CODE_BITS), ((j)-LOW_CODES) * CODE_BITS))
#endif

#if WIDE_FACTORS
#define FACTORS16(p, i) vload16(i, (__global const float *)(p))
#else
#define FACTORS16(p, i) vload_half16(i, (__global const half *)(p))
#endif

/* Return the scales of a span of a block, and the numbers (low) that are added to its elements. */
static inline float16 span_scale(__global const uchar *block, int span) {
  const float16 d = FACTORS16(block + D_AT, span / PERIOD);
#if HAS_SUBS
  return d * convert_float16(vload16(span, (__global const char *)(block + S_AT)));
#else
  return d;
#endif
}
#if HAS_LOWS
static inline float16 span_low(__global const uchar *block, int span) {
  const float16 m = FACTORS16(block + M_AT, span / PERIOD);
#if HAS_SUBS
  return m * convert_float16(vload16(span, (__global const char *)(block + L_AT)));
#else
  return m;
#endif
}
#endif
