#ifndef BASE_FLOAT8_H
#define BASE_FLOAT8_H
/* Conversions between OCP's 8-bit floats and F32. base/dtype.c includes this file as C, kernels as
 * OpenCL C. Both define
 *   FLOAT_OF(u)  the float whose bits are u
 *   BITS_OF(f)   the bits of a float, unsigned
 *
 * E4M3 has an exponent of 4 bits, no infinities, and NaN where all bits are set. E5M2 has an
 * exponent of 5 bits, as F16. Rounding is to nearest even. As in PyTorch, infinities and values
 * beyond the largest number are converted to the largest number in E4M3 and to infinity in E5M2. */

/* These functions select values instead of branching, so that compilers can vectorise them. */
static inline float decode_E4M3(int code) {
  const unsigned bits = (unsigned)code & 127, mantissa = bits & 7;
  const float normal = FLOAT_OF(((bits >> 3) + 120) << 23 | mantissa << 20),
              size = bits < 8 ? (float)(int)mantissa * 0x1p-9f : normal,
              number = bits == 127 ? FLOAT_OF(0x7fc00000u) : size;
  return code & 128 ? -number : number;
}
static inline float decode_E5M2(int code) {
  const unsigned bits = (unsigned)code & 127, mantissa = bits & 3;
  const float normal = FLOAT_OF(((bits >> 2) + 112) << 23 | mantissa << 21),
              size = bits < 4 ? (float)(int)mantissa * 0x1p-16f : normal,
              infinite = FLOAT_OF(0x7f800000u | (mantissa ? 0x400000u | mantissa << 21 : 0)),
              number = bits >= 124 ? infinite : size;
  return code & 128 ? -number : number;
}

/* Returns value / 2^shift rounded to nearest even; 0 < shift < 32. */
static inline unsigned shift_round_even(unsigned value, int shift) {
  const unsigned half_way = 1u << (shift - 1), rest = value & ((half_way << 1) - 1);
  const unsigned result = value >> shift;
  return result + (rest > half_way || (rest == half_way && (result & 1u)) ? 1u : 0u);
}

/* Rounds the bits of a finite F32 without its sign to a format with `mantissa` bits of mantissa and
 * this exponent bias. A carry into the exponent is correct; overflow yields a code above the
 * largest number's. */
static inline unsigned round_float8(unsigned size, int mantissa, int bias) {
  const int exponent = (int)(size >> 23), shift = 151 - bias - mantissa - exponent;
  if (exponent > 127 - bias)
    return shift_round_even(size - ((unsigned)(127 - bias) << 23), 23 - mantissa);
  return shift > 24 ? 0 : shift_round_even((size & 0x7fffffu) | 0x800000u, shift);
}

static inline unsigned encode_E4M3(float f) {
  const unsigned sign = BITS_OF(f) >> 24 & 128u, size = BITS_OF(f) & 0x7fffffffu;
  const unsigned code = size < 0x44000000u ? round_float8(size, 3, 7) : 126u; /* >= 512: largest */
  return sign | (size > 0x7f800000u ? 127u : code < 126u ? code : 126u);
}
static inline unsigned encode_E5M2(float f) {
  const unsigned sign = BITS_OF(f) >> 24 & 128u, size = BITS_OF(f) & 0x7fffffffu;
  const unsigned code = size < 0x47800000u ? round_float8(size, 2, 15) : 124u; /* infinity */
  return sign | (size > 0x7f800000u ? 127u : code < 124u ? code : 124u);
}
#endif
