/* Random numbers by Philox 4x32-10: see docs/random.md, which says which words become which
 * element, and backend/cpu/kernels/random.h. A work-item makes the elements of one block: four of
 * 32 bits, or two of 64 (I64, F64). RANDOM_PARAMS are the session's. */
#include "common.h"
#ifndef OUT_TYPE
#define OUT_TYPE F32
#endif
#ifndef KIND
#define KIND 0
#endif
#define RANDOM_PARAMS const ulong seed, const uint run
#define UNIFORM 0
#define NORMAL 1
#define INTEGER 2
#define PER_BLOCK (KIND == INTEGER || IS_F64(OUT_TYPE) ? 2 : 4)
#define BITS (IS_F16(OUT_TYPE) ? 11 : IS_BF16(OUT_TYPE) ? 8 : 24)

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
/* After Box and Muller: u in (0, 1], v in [0, 1) */
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
  for (int i = 0; i < PER_BLOCK && block * PER_BLOCK + i < n; i++)
    STORE(OUT_TYPE, out + out_offset, block * PER_BLOCK + i, e[i]);
}
