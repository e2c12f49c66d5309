#ifndef BASE_PHILOX_H
#define BASE_PHILOX_H
/* Philox 4x32-10 (Salmon, Moraes, Dror, Shaw: Parallel random numbers: as easy as 1, 2, 3, SC
 * 2011): encrypts a counter with a key. Header only, because CPU kernels must be self-contained. */
#include <stdint.h>

enum { PHILOX_ROUNDS = 10 };

/* Replaces the four words of the counter in w by 128 random bits. */
static inline void philox(uint64_t key, uint32_t w[4]) {
  uint32_t k0 = (uint32_t)key, k1 = (uint32_t)(key >> 32);
  for (int i = 0; i < PHILOX_ROUNDS; i++) {
    uint64_t a = (uint64_t)0xD2511F53U * w[0], b = (uint64_t)0xCD9E8D57U * w[2];
    uint32_t next0 = (uint32_t)(b >> 32) ^ w[1] ^ k0, next2 = (uint32_t)(a >> 32) ^ w[3] ^ k1;
    w[0] = next0;
    w[1] = (uint32_t)b;
    w[2] = next2;
    w[3] = (uint32_t)a;
    k0 += 0x9E3779B9U;
    k1 += 0xBB67AE85U;
  }
}

#endif
