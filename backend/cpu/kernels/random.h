#ifndef BACKEND_CPU_KERNELS_RANDOM_H
#define BACKEND_CPU_KERNELS_RANDOM_H
/* Random numbers by Philox 4x32-10 (Salmon, Moraes, Dror, Shaw: Parallel random numbers: as easy as
 * 1, 2, 3, SC 2011): a counter is encrypted under a key, so that every element is had on its own,
 * on any device in any order. docs/random.md says which words become which element. */
#include "base/kernel.h"

typedef enum krandom_kind { KRANDOM_UNIFORM, KRANDOM_NORMAL, KRANDOM_INTEGER } krandom_kind;

/* The seed and the stretch are the context's. */
typedef struct random_args {
  krandom_kind kind;
  uint32_t stream;
  int64_t low;    /* of integers */
  uint64_t range; /* high - low */
  void *out;      /* (n), contiguous */
  dtype type;     /* of out: floats, or I64 for integers */
  int64_t n;
} random_args;
KERNEL(random, random_args);

#endif
