#ifndef TEST_TOKENIZER_RANDOM_H
#define TEST_TOKENIZER_RANDOM_H
/* Random numbers that are the same in every run (splitmix64). */
#include <stdint.h>

static inline uint32_t random_below(uint64_t *seed, uint32_t n) {
  uint64_t z = *seed += 0x9E3779B97F4A7C15u;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
  return (uint32_t)((z ^ (z >> 31)) % n);
}

#endif
