#ifndef BACKEND_CPU_KERNELS_RANDOM_H
#define BACKEND_CPU_KERNELS_RANDOM_H
/* Random numbers by Philox 4x32-10 (Salmon, Moraes, Dror, Shaw: Parallel random numbers: as easy as
 * 1, 2, 3, SC 2011). A counter is encrypted under a key, so that each element is computed
 * independently, on any device in any order. docs/reference/random.md assigns words to elements. */
#include "base/kernel.h"

typedef enum krandom_kind { KRANDOM_UNIFORM, KRANDOM_NORMAL, KRANDOM_INTEGER } krandom_kind;

/* The seed and the count of stretches (docs/reference/random.md) come from the context. */
typedef struct random_args {
  krandom_kind kind;
  uint32_t stream;
  int64_t low;    /* lower bound of integers */
  uint64_t range; /* high - low */
  void *out;      /* (n), contiguous */
  dtype type;     /* dtype of out: a float, or I64 for integers */
  int64_t n;
} random_args;
KERNEL(random, random_args);

#endif
