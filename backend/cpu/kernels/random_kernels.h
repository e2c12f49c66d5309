#ifndef BACKEND_CPU_KERNELS_RANDOM_KERNELS_H
#define BACKEND_CPU_KERNELS_RANDOM_KERNELS_H
/* Random numbers of 32 bits by whole blocks of Philox, on the processor's widest vectors: the same
 * bits on all processors. */
#include <stdint.h>

enum { RANDOM_BLOCKS = 64 };

/* The numbers of the blocks from `first` on, four per block. They are uniform with `bits` bits, or
 * normal if bits is 0. */
typedef struct random_blocks {
  uint64_t seed, first;
  uint32_t stream, run;
  int bits;
  double numbers[4 * RANDOM_BLOCKS]; /* result */
} random_blocks;
void random_numbers(random_blocks *blocks);

#endif
