#ifndef BASE_DECODE_H
#define BASE_DECODE_H
/* Decodes encoded numbers to floats, 32 at a time. base/encoding.c includes this file as C, and
 * kernels_cl/encoded.h as OpenCL C. Both define
 *   code_bytes             a pointer to constant bytes
 *   code_factors           a struct of float d[2], m[2]; int s[2], l[2]
 *   DECODE_HALF(p)         the F16 at p, an even address, as float
 *   DECODE_TABLE           the declaration of a table of signed bytes
 *   DECODE_GRID(FORMAT)    1 if this format is decoded: other codebooks are left out
 *   FLOAT_OF(u)            the float whose bits are u
 * and include base/decode_grids.h before.
 *
 * The block formats are llama.cpp's. split_FORMAT receives the address of a block, writes the codes
 * of its elements [32 part, 32 part + 32) to `values`, and returns their factors. Computed in this
 * order, the element d * s * code + m * l equals the result of llama.cpp's decoder bit for bit. The
 * layouts are from llama.cpp's ggml-common.h and PyPI's package gguf. */

/* Return factors that all 32 elements share. scale_of is for formats without minima. Its m is -0,
 * because adding -0 does not even change the sign of a zero. */
static inline code_factors factors_of(float d, float m) {
  const code_factors factors = {{d, d}, {m, m}, {1, 1}, {1, 1}};
  return factors;
}
static inline code_factors scale_of(float d) { return factors_of(d, -0.0f); }

static inline void apply_factors(const code_factors *factors, float *values) {
  for (int half16 = 0; half16 < 2; half16++) {
    const float scale = factors->d[half16] * (float)factors->s[half16],
                low = factors->m[half16] * (float)factors->l[half16];
    for (int i = half16 * 16; i < half16 * 16 + 16; i++) values[i] = scale * values[i] + low;
  }
}

/* ---------------------------------------------------------------- blocks of 32 */

/* Layout: d, 16 bytes. The low nibbles are the first 16 elements, the high nibbles the others. */
static inline code_factors split_Q4_0(code_bytes block, int part, float *values) {
  (void)part;
  for (int i = 0; i < 16; i++) {
    values[i] = (float)((block[2 + i] & 15) - 8);
    values[16 + i] = (float)((block[2 + i] >> 4) - 8);
  }
  return scale_of(DECODE_HALF(block));
}

/* Layout: d, m, 16 bytes. */
static inline code_factors split_Q4_1(code_bytes block, int part, float *values) {
  (void)part;
  for (int i = 0; i < 16; i++) {
    values[i] = (float)(block[4 + i] & 15);
    values[16 + i] = (float)(block[4 + i] >> 4);
  }
  return factors_of(DECODE_HALF(block), DECODE_HALF(block + 2));
}

/* Returns the fifth bit of element i's code, shifted to its position in the code. */
static inline int decode_fifth(code_bytes high, int i) { return (high[i / 8] >> i % 8 & 1) << 4; }

/* Layout: d, 32 fifth bits, 16 bytes. */
static inline code_factors split_Q5_0(code_bytes block, int part, float *values) {
  (void)part;
  for (int i = 0; i < 16; i++) {
    values[i] = (float)(((block[6 + i] & 15) | decode_fifth(block + 2, i)) - 16);
    values[16 + i] = (float)(((block[6 + i] >> 4) | decode_fifth(block + 2, 16 + i)) - 16);
  }
  return scale_of(DECODE_HALF(block));
}

/* Layout: d, m, 32 fifth bits, 16 bytes. */
static inline code_factors split_Q5_1(code_bytes block, int part, float *values) {
  (void)part;
  for (int i = 0; i < 16; i++) {
    values[i] = (float)((block[8 + i] & 15) | decode_fifth(block + 4, i));
    values[16 + i] = (float)((block[8 + i] >> 4) | decode_fifth(block + 4, 16 + i));
  }
  return factors_of(DECODE_HALF(block), DECODE_HALF(block + 2));
}

static inline int decode_signed(int byte) { return (byte ^ 128) - 128; }

/* Layout: d, 32 signed bytes. */
static inline code_factors split_Q8_0(code_bytes block, int part, float *values) {
  (void)part;
  for (int i = 0; i < 32; i++) values[i] = (float)decode_signed(block[2 + i]);
  return scale_of(DECODE_HALF(block));
}

DECODE_TABLE decode_levels[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                  1,    13,   25,  38,  53,  69,  89,  113};

/* Layout: d, 16 bytes of indices of decode_levels. */
static inline code_factors split_IQ4_NL(code_bytes block, int part, float *values) {
  (void)part;
  for (int i = 0; i < 16; i++) {
    values[i] = (float)decode_levels[block[2 + i] & 15];
    values[16 + i] = (float)decode_levels[block[2 + i] >> 4];
  }
  return scale_of(DECODE_HALF(block));
}

/* The values of OCP's E2M1, times two. */
DECODE_TABLE decode_e2m1[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

/* Layout: the exponent e of the scale 2^(e - 127), 16 bytes. The scale is halved here, because
 * decode_e2m1 has doubled values. */
static inline code_factors split_MXFP4(code_bytes block, int part, float *values) {
  const unsigned e = block[0];
  (void)part;
  for (int i = 0; i < 16; i++) {
    values[i] = (float)decode_e2m1[block[1 + i] & 15];
    values[16 + i] = (float)decode_e2m1[block[1 + i] >> 4];
  }
  return scale_of(FLOAT_OF(e < 2 ? 0x200000u << e : (e - 1) << 23));
}

/* ---------------------------------------------------------------- blocks of 256 */

/* Layout: 16 bytes of a 4-bit scale and a 4-bit minimum each; 64 bytes of 2-bit codes; d, dmin. */
static inline code_factors split_Q2_K(code_bytes block, int part, float *values) {
  code_factors factors = factors_of(DECODE_HALF(block + 80), -DECODE_HALF(block + 82));
  code_bytes codes = block + 16 + part / 4 * 32, scales = block + part * 2;
  for (int half16 = 0; half16 < 2; half16++) {
    factors.s[half16] = scales[half16] & 15;
    factors.l[half16] = scales[half16] >> 4;
  }
  for (int i = 0; i < 32; i++) values[i] = (float)(codes[i] >> part % 4 * 2 & 3);
  return factors;
}

/* Layout: 32 bytes of high bits; 64 bytes of 2 low bits; sixteen 6-bit scales in 12 bytes; d. */
static inline code_factors split_Q3_K(code_bytes block, int part, float *values) {
  code_factors factors = scale_of(DECODE_HALF(block + 108));
  code_bytes codes = block + 32 + part / 4 * 32, scales = block + 96;
  for (int half16 = 0; half16 < 2; half16++) {
    const int s = part * 2 + half16;
    const int bits = (scales[s % 8] >> s / 8 * 4 & 15) | (scales[8 + s % 4] >> s / 4 * 2 & 3) << 4;
    factors.s[half16] = bits - 32;
  }
  for (int i = 0; i < 32; i++)
    values[i] = (float)((codes[i] >> part % 4 * 2 & 3) - (block[i] >> part & 1 ? 0 : 4));
  return factors;
}

/* Returns the factors of a part of a block that begins with d, dmin and 12 bytes of 6-bit scales
 * and minima. */
static inline code_factors k_factors(code_bytes block, int part) {
  code_factors factors = factors_of(DECODE_HALF(block), -DECODE_HALF(block + 2));
  code_bytes packed = block + 4;
  const int at = part % 4;
  factors.s[0] = factors.s[1] =
      part < 4 ? packed[at] & 63 : (packed[8 + at] & 15) | packed[at] >> 6 << 4;
  factors.l[0] = factors.l[1] =
      part < 4 ? packed[4 + at] & 63 : packed[8 + at] >> 4 | packed[4 + at] >> 6 << 4;
  return factors;
}

/* Layout: d, dmin, 12 bytes of scales, 128 bytes. */
static inline code_factors split_Q4_K(code_bytes block, int part, float *values) {
  code_bytes codes = block + 16 + part / 2 * 32;
  for (int i = 0; i < 32; i++) values[i] = (float)(codes[i] >> part % 2 * 4 & 15);
  return k_factors(block, part);
}

/* Layout: d, dmin, 12 bytes of scales, 32 bytes of fifth bits, 128 bytes. */
static inline code_factors split_Q5_K(code_bytes block, int part, float *values) {
  code_bytes codes = block + 48 + part / 2 * 32, high = block + 16;
  for (int i = 0; i < 32; i++)
    values[i] = (float)((codes[i] >> part % 2 * 4 & 15) | (high[i] >> part & 1) << 4);
  return k_factors(block, part);
}

/* Layout: 128 bytes of 4 low bits; 64 bytes of 2 high bits; 16 signed scales; d. */
static inline code_factors split_Q6_K(code_bytes block, int part, float *values) {
  code_factors factors = scale_of(DECODE_HALF(block + 208));
  const int in_half = part % 4;
  code_bytes low = block + part / 4 * 64 + in_half % 2 * 32, high = block + 128 + part / 4 * 32,
             scales = block + 192 + part * 2;
  for (int half16 = 0; half16 < 2; half16++) factors.s[half16] = decode_signed(scales[half16]);
  for (int i = 0; i < 32; i++)
    values[i] =
        (float)(((low[i] >> in_half / 2 * 4 & 15) | (high[i] >> in_half * 2 & 3) << 4) - 32);
  return factors;
}

/* Layout: d; high bits (2 bytes) and low bits (4) of scales; 128 bytes of decode_levels indices. */
static inline code_factors split_IQ4_XS(code_bytes block, int part, float *values) {
  const int low = block[4 + part / 2] >> part % 2 * 4 & 15,
            high = (block[2] | block[3] << 8) >> part * 2 & 3;
  code_factors factors = scale_of(DECODE_HALF(block));
  code_bytes codes = block + 8 + part * 16;
  factors.s[0] = factors.s[1] = (low | high << 4) - 32;
  for (int i = 0; i < 16; i++) {
    values[i] = (float)decode_levels[codes[i] & 15];
    values[16 + i] = (float)decode_levels[codes[i] >> 4];
  }
  return factors;
}

/* Returns digit `place` minus 1. The byte stores five base-3 digits as the fraction byte / 256. */
static inline float decode_ternary(int byte, int place) {
  const int power = place < 2 ? (place ? 3 : 1) : place == 2 ? 9 : place == 3 ? 27 : 81;
  return (float)(((byte * power & 255) * 3 >> 8) - 1);
}

/* Layout: 48 bytes of five digits each and 4 bytes of four; d. */
static inline code_factors split_TQ1_0(code_bytes block, int part, float *values) {
  for (int i = 0; i < 32; i++) {
    const int at = part * 32 + i, rest = at - 160, last = at - 240;
    values[i] = at < 160   ? decode_ternary(block[at % 32], at / 32)
                : at < 240 ? decode_ternary(block[32 + rest % 16], rest / 16)
                           : decode_ternary(block[48 + last % 4], last / 4);
  }
  return scale_of(DECODE_HALF(block + 52));
}

/* Layout: 64 bytes of 2-bit codes; d. */
static inline code_factors split_TQ2_0(code_bytes block, int part, float *values) {
  code_bytes codes = block + part / 4 * 32;
  for (int i = 0; i < 32; i++) values[i] = (float)((codes[i] >> part % 4 * 2 & 3) - 1);
  return scale_of(DECODE_HALF(block + 64));
}

/* ---------------------------------------------------------------- blocks of 256 with a codebook
 * Factors of 1/8 and 1/4 are powers of two, so that all products are exact. */

static inline unsigned decode_word(code_bytes p) {
  return p[0] | (unsigned)p[1] << 8 | (unsigned)p[2] << 16 | (unsigned)p[3] << 24;
}

/* Returns the signs of 8 elements, a bit each, of which 7 are stored: their number is even. */
static inline int decode_even_signs(int bits) {
  int parity = bits ^ bits >> 4;
  parity ^= parity >> 2;
  return bits | (parity ^ parity >> 1) << 7;
}

/* Writes 8 elements of IQ2, whose magnitudes are 8, 25 and 43. */
static inline void decode_grid2(int word, int signs, float *values) {
  for (int i = 0; i < 8; i++) {
    const int code = word >> 2 * i & 3, size = 8 + 17 * code + (code >> 1);
    values[i] = (float)(signs >> i & 1 ? -size : size);
  }
}

/* Writes 4 elements of IQ3_XXS, whose magnitudes are 4, 12, ... 52 and 62. */
static inline void decode_grid3(int word, int signs, float *values) {
  for (int i = 0; i < 4; i++) {
    const int code = word >> 3 * i & 7, size = 4 + 8 * code + (code == 7 ? 2 : 0);
    values[i] = (float)(signs >> i & 1 ? -size : size);
  }
}

/* Writes 8 elements of IQ1, times 8: -8, 0 or 8, plus or minus 1. */
static inline void decode_grid1(int word, int is_less, float *values) {
  for (int i = 0; i < 8; i++)
    values[i] = (float)(((word >> 2 * i & 3) - 1) * 8 + (is_less ? -1 : 1));
}

#if DECODE_GRID(IQ2_XXS)
/* Layout: d; for each part 4 indices, then 28 bits of signs and 4 of the scale. */
static inline code_factors split_IQ2_XXS(code_bytes block, int part, float *values) {
  code_bytes indices = block + 2 + part * 8;
  const unsigned more = decode_word(indices + 4);
  code_factors factors = scale_of(DECODE_HALF(block) * 0.125f);
  factors.s[0] = factors.s[1] = (int)(more >> 28) * 2 + 1;
  for (int i = 0; i < 4; i++)
    decode_grid2(grid_IQ2_XXS[indices[i]], decode_even_signs(more >> 7 * i & 127), values + 8 * i);
  return factors;
}
#endif

#if DECODE_GRID(IQ2_XS)
/* Layout: d; 32 words of 9 bits of an index and 7 of signs; sixteen 4-bit scales. */
static inline code_factors split_IQ2_XS(code_bytes block, int part, float *values) {
  code_factors factors = scale_of(DECODE_HALF(block) * 0.125f);
  factors.s[0] = (block[66 + part] & 15) * 2 + 1;
  factors.s[1] = (block[66 + part] >> 4) * 2 + 1;
  for (int i = 0; i < 4; i++) {
    code_bytes at = block + 2 + part * 8 + i * 2;
    decode_grid2(grid_IQ2_XS[at[0] | (at[1] & 1) << 8], decode_even_signs(at[1] >> 1),
                 values + 8 * i);
  }
  return factors;
}
#endif

#if DECODE_GRID(IQ2_S)
/* Layout: d; 32 low bytes of indices; 32 bytes of signs; 8 bytes of high bits; sixteen 4-bit
 * scales. */
static inline code_factors split_IQ2_S(code_bytes block, int part, float *values) {
  code_bytes low = block + 2 + part * 4;
  const int high = block[66 + part];
  code_factors factors = scale_of(DECODE_HALF(block) * 0.125f);
  factors.s[0] = (block[74 + part] & 15) * 2 + 1;
  factors.s[1] = (block[74 + part] >> 4) * 2 + 1;
  for (int i = 0; i < 4; i++)
    decode_grid2(grid_IQ2_S[low[i] | (high >> 2 * i & 3) << 8], low[32 + i], values + 8 * i);
  return factors;
}
#endif

#if DECODE_GRID(IQ3_XXS)
/* Layout: d; 64 indices; for each part 28 bits of signs and 4 of the scale. */
static inline code_factors split_IQ3_XXS(code_bytes block, int part, float *values) {
  code_bytes indices = block + 2 + part * 8;
  const unsigned more = decode_word(block + 66 + part * 4);
  code_factors factors = scale_of(DECODE_HALF(block) * 0.25f);
  factors.s[0] = factors.s[1] = (int)(more >> 28) * 2 + 1;
  for (int i = 0; i < 8; i++) {
    const int signs = decode_even_signs(more >> 7 * (i / 2) & 127);
    decode_grid3(grid_IQ3_XXS[indices[i]], signs >> i % 2 * 4, values + 4 * i);
  }
  return factors;
}
#endif

#if DECODE_GRID(IQ3_S)
/* Layout: d; 64 low bytes of indices; 8 bytes of high bits; 32 bytes of signs; eight 4-bit scales.
 * Elements are odd, from -15 to 15: 2 code - 15. */
static inline code_factors split_IQ3_S(code_bytes block, int part, float *values) {
  const float d = DECODE_HALF(block);
  code_factors factors = factors_of(d * 2, d * -15);
  const int s = (block[106 + part / 2] >> part % 2 * 4 & 15) * 2 + 1;
  factors.s[0] = factors.s[1] = factors.l[0] = factors.l[1] = s;
  for (int i = 0; i < 8; i++) {
    const int word = grid_IQ3_S[block[2 + part * 8 + i] | (block[66 + part] >> i & 1) << 8];
    const int signs = block[74 + part * 4 + i / 2] >> i % 2 * 4;
    for (int k = 0; k < 4; k++) {
      const int code = word >> 3 * k & 7;
      values[4 * i + k] = (float)(signs >> k & 1 ? 7 - code : 8 + code);
    }
  }
  return factors;
}
#endif

#if DECODE_GRID(IQ1_S)
/* Layout: d; 32 low bytes of indices; for each part 12 high bits, 3 of the scale and a sign. */
static inline code_factors split_IQ1_S(code_bytes block, int part, float *values) {
  const int high = block[34 + part * 2] | block[35 + part * 2] << 8;
  code_factors factors = scale_of(DECODE_HALF(block) * 0.125f);
  factors.s[0] = factors.s[1] = (high >> 12 & 7) * 2 + 1;
  for (int i = 0; i < 4; i++)
    decode_grid1(grid_IQ1_S[block[2 + part * 4 + i] | (high >> 3 * i & 7) << 8], high >> 15,
                 values + 8 * i);
  return factors;
}

/* Returns the float whose F16 bits are given. */
static inline float decode_half_bits(unsigned bits) {
  const unsigned sign = (bits & 0x8000u) << 16, exponent = bits >> 10 & 31, rest = bits & 1023;
  if (!exponent) return (sign ? -0x1p-24f : 0x1p-24f) * (float)rest;
  return FLOAT_OF(sign | (exponent == 31 ? 255u : exponent + 112) << 23 | rest << 13);
}

/* Layout: 32 low bytes of indices; 16 bytes of 3 high bits and a sign for 8 elements each; 4 words
 * of four 3-bit scales and a nibble of d, from the lowest nibble on. */
static inline code_factors split_IQ1_M(code_bytes block, int part, float *values) {
  code_bytes scales = block + 48;
  const int bits =
      scales[1] >> 4 | (scales[3] & 240) | (scales[5] & 240) << 4 | (scales[7] & 240) << 8;
  code_factors factors = scale_of(decode_half_bits((unsigned)bits) * 0.125f);
  for (int half16 = 0; half16 < 2; half16++) {
    const int at = part * 2 + half16, word = scales[at / 4 * 2] | scales[at / 4 * 2 + 1] << 8;
    factors.s[half16] = (word >> at % 4 * 3 & 7) * 2 + 1;
  }
  for (int i = 0; i < 4; i++) {
    const int high = block[32 + part * 2 + i / 2] >> i % 2 * 4;
    decode_grid1(grid_IQ1_S[block[part * 4 + i] | (high & 7) << 8], high & 8, values + 8 * i);
  }
  return factors;
}
#endif
#endif
