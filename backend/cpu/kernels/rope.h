#ifndef BACKEND_CPU_KERNELS_ROPE_H
#define BACKEND_CPU_KERNELS_ROPE_H
/* Rotary position embedding. */
#include "base/kernel.h"

/* Rotates the pair (a, b) to (a cos - b sin, b cos + a sin). Pairs are (2i, 2i + 1) if interleaved,
 * else (i, i + n_pairs). */
typedef struct rope_args {
  ktensor x;        /* (*, n_heads) of n_rows rows, each of 2 n_pairs neighbours */
  ktensor cos, sin; /* (n_angles, n_pairs) contiguous: row i of (*) % n_angles */
  ktensor out;      /* contiguous */
  int64_t n_rows, n_angles, n_heads, n_pairs;
  bool interleaved;
} rope_args;
KERNEL(rope, rope_args);

#endif
