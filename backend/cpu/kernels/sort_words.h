#ifndef BACKEND_CPU_KERNELS_SORT_WORDS_H
#define BACKEND_CPU_KERNELS_SORT_WORDS_H
/* Stable sorting of 64-bit words by their high halves, ascending. */
#include "base/kernel.h"

enum { SORT_DIGITS = 256 };

/* The threads that share a sort of many words. */
typedef struct sort_pool {
  const kernel_context *ctx;
  int64_t shares;   /* number of shares that the words are divided into, at most n */
  uint32_t *counts; /* (shares, SORT_DIGITS), scratch memory */
} sort_pool;

/* Sorts the n < 2^32 words of a, with b (n) as a second buffer. Returns the one of both that has
 * the result. pool NULL: sorts on this thread. */
uint64_t *sort_words(uint64_t *a, uint64_t *b, int64_t n, const sort_pool *pool);

#endif
