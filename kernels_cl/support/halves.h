/* Arithmetic of eight halves at once, which some GPUs compute at twice the rate of floats.
 * HALVES_BY selects the implementation, which defines:
 *   halves                 eight halves
 *   HALVES_OF(texel)       the eight halves in the 16 bytes of a uint4
 *   ADD_PRODUCT(a, b, c)   a * b + c; a and c are halves, b is one half (x.s3) or eight
 *   FLOATS_OF(h)           the halves as a float8
 * A sum of halves has 11 bits, and overflows from 65,520 on. Kernels therefore scale each vector of
 * an operand (gemm_halves_pack.cl), and add at most HALVES_CHAIN products before the sum becomes a
 * float: the error is at most HALVES_CHAIN / 2048 of each product. */
#ifndef HALVES_H
#define HALVES_H
#include "common.h"
#define HALVES_NONE 0
#define HALVES_DEVICE 1 /* by cl_khr_fp16 */
#define HALVES_FLOATS 2 /* floats that are rounded after each operation: for tests */
#ifndef HALVES_BY
#define HALVES_BY HALVES_NONE
#endif
#define HALVES_CHAIN 16

#if HALVES_BY == HALVES_DEVICE
typedef half8 halves;
#define HALVES_OF(texel) as_half8(texel)
#define ADD_PRODUCT(a, b, c) FMA((halves)(b), a, c)
#define FLOATS_OF(h) ((float8)((h).s0, (h).s1, (h).s2, (h).s3, (h).s4, (h).s5, (h).s6, (h).s7))
#elif HALVES_BY == HALVES_FLOATS
typedef float8 halves;
static inline halves halves_of(uint4 texel) {
  __attribute__((aligned(16))) uchar bytes[16]; /* uchar: may alias half */
  vstore16(as_uchar16(texel), 0, bytes);
  return vload_half8(0, (const half *)bytes);
}
static inline halves round_to_halves(float8 x) {
  const uint8 size = as_uint8(x) & 0x7fffffffu;
  const uint8 normal = (size + 0xfffu + ((size >> 13u) & 1u)) & ~0x1fffu;
  const uint8 small = as_uint8(as_float8(size) + 0.5f - 0.5f); /* rounds to 2^-24 */
  const uint8 finite = size < 0x38800000u ? small : normal;
  const uint8 rounded = size > 0x7f800000u      ? size
                        : finite >= 0x47800000u ? (uint8)0x7f800000u
                                                : finite;
  return as_float8(rounded | (as_uint8(x) & 0x80000000u));
}
#define HALVES_OF(texel) halves_of(texel)
#define ADD_PRODUCT(a, b, c) round_to_halves(FMA((halves)(b), a, c))
#define FLOATS_OF(h) (h)
#endif
#endif
