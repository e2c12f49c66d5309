#ifndef TEST_BACKEND_CONV_WAYS_H
#define TEST_BACKEND_CONV_WAYS_H
/* Selects the convolution algorithm for tests of the CPU backend's kernels. */
#include "backend/cpu/kernels/conv/conv.h"

/* Returns the first algorithm that accepts the convolution. packs: the weight may be packed. */
static inline conv_way find_way(const conv_args *args, bool packs) {
  static const conv_way ways[] = {CONV_BY_STRIPS, CONV_BY_PLANES, CONV_BY_POINTWISE};
  conv_args found = *args;
  found.is_packed = packs && conv_packs(args);
  for (size_t i = 0; i < sizeof ways / sizeof *ways; i++)
    if (conv_accepts_way(&found, ways[i])) return ways[i];
  return CONV_BY_PRODUCT;
}

#endif
