#ifndef BACKEND_CPU_KERNELS_RANDOM_KERNELS_H
#define BACKEND_CPU_KERNELS_RANDOM_KERNELS_H
/* Random numbers of 32 bits by whole blocks of Philox, on the widest vectors that the processor
 * has: the same bits on all. */
#include <stdint.h>

enum { RANDOM_BLOCKS = 64 };

/* Numbers of blocks first, first + 1, ..., four of each: uniform ones of so many bits, or normal
 * ones where bits is 0. */
typedef struct random_blocks {
  uint64_t seed, first;
  uint32_t stream, run;
  int bits;
  double numbers[4 * RANDOM_BLOCKS]; /* the result */
} random_blocks;
void random_numbers(random_blocks *blocks);

#endif
