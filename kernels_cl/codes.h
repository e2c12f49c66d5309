/* Panels of codes (base/code_panels.h): CODE_BITS (4 or 8), LEAST, SPANS, HAS_SUBS, HAS_LOWS, and
 * WIDE_FACTORS, 1 where d and m are F32. */
#include "common.h"
#ifndef CODE_BITS
#define CODE_BITS 4
#define LEAST 0
#define SPANS 1
#define HAS_SUBS 0
#define HAS_LOWS 0
#define WIDE_FACTORS 0
#endif
#define PANEL 16
#define PART 32 /* k */
#define VECTORS CODE_BITS
#define CODES (32 / CODE_BITS) /* of a word */
#define PART_BYTES (VECTORS * 64)

#define CODES_PARAMS                                                                     \
  __global const uchar *b, const long b_offset, const long panel_bytes, const long d_at, \
      const long m_at, const long s_at, const long l_at, const index_t parts, const index_t period

/* Codes of one k as floats, from the bits [at, at + CODE_BITS) of a word, at <= 16: a float that
 * has them where its mantissa counts ones, less what that adds, which is exact. */
#define CODE_MASK ((1u << CODE_BITS) - 1)
#define CODE_AT(w, at)                                                               \
  (as_float16(((w) & (uint16)(CODE_MASK << (at))) | (uint16)((150u - (at)) << 23)) - \
   ((float)(1 << (23 - (at))) - (float)LEAST))
/* Those below bit 20 where they are; others 16 or 20 bits further down. */
#if CODE_BITS == 4
#define LOW_CODES 5
#else
#define LOW_CODES 2
#endif
#define CODE_OF(w, j)                          \
  ((j) < LOW_CODES ? CODE_AT(w, (j)*CODE_BITS) \
                   : CODE_AT((w) >> (uint16)(LOW_CODES * CODE_BITS), ((j)-LOW_CODES) * CODE_BITS))

#if WIDE_FACTORS
#define FACTORS16(p, i) vload16(i, (__global const float *)(p))
#else
#define FACTORS16(p, i) vload_half16(i, (__global const half *)(p))
#endif

/* Scales of a span of a part of the panel, which has factors `number`, and what is added to its
 * elements. */
static inline float16 span_scale(__global const uchar *panel, long d_at, long s_at, index_t number,
                                 index_t part, int span) {
  const float16 d = FACTORS16(panel + d_at, number);
#if HAS_SUBS
  return d * convert_float16(vload16(part * SPANS + span, (__global const char *)(panel + s_at)));
#else
  return d;
#endif
}
#if HAS_LOWS
static inline float16 span_low(__global const uchar *panel, long m_at, long l_at, index_t number,
                               index_t part, int span) {
  const float16 m = FACTORS16(panel + m_at, number);
#if HAS_SUBS
  return m * convert_float16(vload16(part * SPANS + span, (__global const char *)(panel + l_at)));
#else
  return m;
#endif
}
#endif
