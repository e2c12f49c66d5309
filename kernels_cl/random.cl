/* Random numbers by Philox 4x32-10. docs/reference/random.md defines the words that make each
 * element; see also backend/cpu/kernels/random.h. A work-item computes the elements of one block:
 * four of 32 bits, or two of 64 (I64, F64). With VECTOR, for elements of 32 bits, it computes those
 * of 16 blocks. RANDOM_PARAMS belong to the session. */
#include "common.h"
#ifndef OUT_TYPE
#define OUT_TYPE F32
#endif
#ifndef KIND
#define KIND 0
#endif
#ifndef VECTOR
#define VECTOR 0
#endif
#define RANDOM_PARAMS const ulong seed, const uint run
#define UNIFORM 0
#define NORMAL 1
#define INTEGER 2
#define PER_BLOCK (VECTOR ? 64 : KIND == INTEGER || IS_F64(OUT_TYPE) ? 2 : 4)
#define BITS (IS_F16(OUT_TYPE) ? 11 : IS_BF16(OUT_TYPE) ? 8 : 24)

#if VECTOR
typedef struct words16 {
  uint16 x, y, z, w;
} words16;

static inline words16 philox16(words16 a, uint k0, uint k1) {
  for (int i = 0; i < 10; i++) {
    a = (words16){mul_hi((uint16)0xCD9E8D57u, a.z) ^ a.y ^ k0, 0xCD9E8D57u * a.z,
                  mul_hi((uint16)0xD2511F53u, a.x) ^ a.w ^ k1, 0xD2511F53u * a.x};
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  return a;
}

static inline void normals16(uint16 a, uint16 b, float16 *e) {
  const float16 u = convert_float16((a >> 8u) + 1u) * 0x1p-24f,
                v = convert_float16(b >> 8u) * 0x1p-24f, radius = sqrt(-2 * log(u));
  e[0] = radius * cospi(2 * v);
  e[1] = radius * sinpi(2 * v);
}

/* Converts the words of 16 blocks to numbers, four per block. */
static inline void numbers16(words16 a, float16 *e) {
#if KIND == UNIFORM
  const float unit = 1.0f / (1 << BITS);
  e[0] = convert_float16(a.x >> (uint)(32 - BITS)) * unit;
  e[1] = convert_float16(a.y >> (uint)(32 - BITS)) * unit;
  e[2] = convert_float16(a.z >> (uint)(32 - BITS)) * unit;
  e[3] = convert_float16(a.w >> (uint)(32 - BITS)) * unit;
#else
  normals16(a.x, a.y, e);
  normals16(a.z, a.w, e + 2);
#endif
}
#endif

static inline uint4 philox(uint4 w, uint k0, uint k1) {
  for (int i = 0; i < 10; i++) {
    w = (uint4)(mul_hi(0xCD9E8D57u, w.z) ^ w.y ^ k0, 0xCD9E8D57u * w.z,
                mul_hi(0xD2511F53u, w.x) ^ w.w ^ k1, 0xD2511F53u * w.x);
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  return w;
}

#if KIND != INTEGER
/* Returns two normal numbers in e, by the Box-Muller transform of u in (0, 1] and v in [0, 1). */
static inline void normal_pair(real u, real v, real *e) {
  const real radius = sqrt(-2 * log(u));
  e[0] = radius * cospi(2 * v);
  e[1] = radius * sinpi(2 * v);
}
#endif

__kernel void random(__global STORAGE(OUT_TYPE) * out, const long out_offset, const long n,
                     const uint stream, const long low, const ulong range, RANDOM_PARAMS) {
  const long block = (long)get_global_id(0);
  if (block * PER_BLOCK >= n) return;
#if VECTOR
  const long first = block * 16; /* all 16 have the same high word */
  const uint16 lane = (uint16)(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
  const words16 counters = {(uint)first + lane, (uint16)(uint)(first >> 32), (uint16)stream,
                            (uint16)run};
  float16 made[4];
  numbers16(philox16(counters, (uint)seed, (uint)(seed >> 32)), made);
  float e[64];
  for (int j = 0; j < 4; j++) {
    float of[16];
    vstore16(made[j], 0, of);
    for (int i = 0; i < 16; i++) e[4 * i + j] = of[i];
  }
#else
  const uint4 w = philox((uint4)((uint)block, (uint)(block >> 32), stream, run), (uint)seed,
                         (uint)(seed >> 32));
#if KIND == INTEGER || IS_F64(OUT_TYPE)
  const ulong a = w.x | (ulong)w.y << 32, b = w.z | (ulong)w.w << 32;
  real e[2];
#if KIND == INTEGER
  e[0] = (long)((ulong)low + mul_hi(a, range));
  e[1] = (long)((ulong)low + mul_hi(b, range));
#elif KIND == UNIFORM
  e[0] = (real)(a >> 11) * (real)0x1p-53;
  e[1] = (real)(b >> 11) * (real)0x1p-53;
#else
  normal_pair((real)((a >> 11) + 1) * (real)0x1p-53, (real)(b >> 11) * (real)0x1p-53, e);
#endif
#else
  real e[4];
#if KIND == UNIFORM
  const uint4 bits = w >> (uint)(32 - BITS);
  const real unit = (real)1 / (1 << BITS);
  e[0] = (real)bits.x * unit;
  e[1] = (real)bits.y * unit;
  e[2] = (real)bits.z * unit;
  e[3] = (real)bits.w * unit;
#else
  normal_pair((real)((w.x >> 8) + 1) * (real)0x1p-24f, (real)(w.y >> 8) * (real)0x1p-24f, e);
  normal_pair((real)((w.z >> 8) + 1) * (real)0x1p-24f, (real)(w.w >> 8) * (real)0x1p-24f, e + 2);
#endif
#endif
#endif
  for (int i = 0; i < PER_BLOCK && block * PER_BLOCK + i < n; i++)
    STORE(OUT_TYPE, out + out_offset, block * PER_BLOCK + i, e[i]);
}
