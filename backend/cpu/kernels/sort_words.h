#ifndef BACKEND_CPU_KERNELS_SORT_WORDS_H
#define BACKEND_CPU_KERNELS_SORT_WORDS_H
/* Stable sorting of 64-bit words by their high halves, upward. */
#include "base/kernel.h"

enum { SORT_DIGITS = 256 };

/* Threads for a sort of many words. */
typedef struct sort_pool {
  const kernel_context *ctx;
  int64_t parts;    /* that the words are cut into, at most n */
  uint32_t *counts; /* (parts, SORT_DIGITS), scratch memory */
} sort_pool;

/* The n < 2^32 words of a, sorted, in a or in b (n), whichever is returned. pool NULL: on this
 * thread alone. */
uint64_t *sort_words(uint64_t *a, uint64_t *b, int64_t n, const sort_pool *pool);

#endif
