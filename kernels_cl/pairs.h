/* Products of floats that are rounded to BF16 first, two k at a time, where PAIRS is 1: words that
 * pass for elements of F32, whose low and high 16 bits are an even k and the next, 0 beyond the
 * last. The terms of a pair are added to a sum in f32. PAIRS:
 *   PAIRS_ASM    by instructions of the CPU's
 *   PAIRS_LOCAL  the same in OpenCL C, on any device whose vectors are 16 wide: for tests */
#ifndef PAIRS_H
#define PAIRS_H
#define PAIRS_NONE 0
#define PAIRS_ASM 1
#define PAIRS_LOCAL 2
#ifndef PAIRS
#define PAIRS PAIRS_NONE
#endif

#if PAIRS
#define WORDS_OF(k) (((k) + 1) / 2)
/* Word i of a row of n elements that are `step` apart. */
#define WORD_AT(T, row, i, step, n)                    \
  as_float(                                            \
      float_to_bf16(LOADF(T, row, 2 * (i) * (step))) | \
      (2 * (i) + 1 < (n) ? (uint)float_to_bf16(LOADF(T, row, (2 * (i) + 1) * (step))) << 16 : 0))
/* 8 words of contiguous elements. */
#define WORDS8(T, p) PASTE(words8_, T)(p)
#define words8_F32(p) as_float8(round_pairs(LOAD16F(F32, p)))
#define words8_F16(p) as_float8(round_pairs(LOAD16F(F16, p)))
#define words8_BF16(p) as_float8(vload16(0, p))

#if PAIRS == PAIRS_LOCAL
static inline ushort16 round_pairs(float16 v) { return float_to_bf16_16(v); }
static inline float16 join_rows(float16 even, float16 odd) {
  return as_float16(convert_uint16(round_pairs(even)) | convert_uint16(round_pairs(odd)) << 16);
}
static inline float16 add_pairs(float16 sum, float16 a, float16 b) {
  const uint16 x = as_uint16(a), y = as_uint16(b);
  return fma(as_float16(x & 0xffff0000u), as_float16(y & 0xffff0000u),
             fma(as_float16(x << 16), as_float16(y << 16), sum));
}
#else
static inline ushort16 round_pairs(float16 v) {
  ushort16 rounded;
  __asm__("vcvtneps2bf16 %1, %0" : "=v"(rounded) : "v"(v));
  return rounded;
}

/* 16 words of two rows. Like the products, it takes subnormal numbers for 0. */
static inline float16 join_rows(float16 even, float16 odd) {
  const uint16 order =
      (uint16)(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15) * 0x10001u + 0x100000u;
  float16 rounded, words;
  __asm__("vcvtne2ps2bf16 %1, %2, %0" : "=v"(rounded) : "v"(even), "v"(odd));
  __asm__("vpermw %1, %2, %0" : "=v"(words) : "v"(rounded), "v"(order));
  return words;
}

static inline float16 add_pairs(float16 sum, float16 a, float16 b) {
  __asm__("vdpbf16ps %2, %1, %0" : "+v"(sum) : "v"(a), "v"(b));
  return sum;
}
#endif
#define ADD_PRODUCT(sum, a, b) add_pairs(sum, a, b)
#else
#define WORDS_OF(k) (k)
#define ADD_PRODUCT(sum, a, b) fma(a, b, sum)
#endif
#endif
