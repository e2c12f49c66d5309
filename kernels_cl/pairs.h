/* Products of floats that are rounded to BF16 first, two k at a time, where PAIRS is 1: words that
 * pass for elements of F32, whose low and high 16 bits are an even k and the next, 0 beyond the
 * last. The CPU's instruction adds the terms of a pair to a sum in f32. */
#ifndef PAIRS
#define PAIRS 0
#endif

#if PAIRS
#define WORDS_OF(k) (((k) + 1) / 2)
/* Word i of a row of n elements that are `step` apart. */
#define WORD_AT(T, row, i, step, n)                    \
  as_float(                                            \
      float_to_bf16(LOADF(T, row, 2 * (i) * (step))) | \
      (2 * (i) + 1 < (n) ? (uint)float_to_bf16(LOADF(T, row, (2 * (i) + 1) * (step))) << 16 : 0))
/* 8 words of contiguous elements. */
#define WORDS8(T, p) as_float8(float_to_bf16_16(LOAD16F(T, p)))

/* 16 words of two rows, the second with the bits of `high` alone. */
#define JOINED(even, odd, high)                       \
  as_float16(convert_uint16(float_to_bf16_16(even)) | \
             (convert_uint16(float_to_bf16_16(odd)) & (high)) << 16u)

static inline float16 add_pairs(float16 sum, float16 a, float16 b) {
  __asm__("vdpbf16ps %2, %1, %0" : "+v"(sum) : "v"(a), "v"(b));
  return sum;
}
#define ADD_PRODUCT(sum, a, b) add_pairs(sum, a, b)
#else
#define WORDS_OF(k) (k)
#define ADD_PRODUCT(sum, a, b) fma(a, b, sum)
#endif
