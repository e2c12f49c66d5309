#ifndef BACKEND_CPU_KERNELS_ATTENTION_ATTEND_KERNELS_H
#define BACKEND_CPU_KERNELS_ATTENTION_ATTEND_KERNELS_H
/* Inner kernels of attention for many queries, on the processor's widest vectors. Each query is a
 * lane of a panel, (n, lanes) floats: lanes are PANEL_HALF or PANEL_LANES. */
#include "base/kernel.h"

enum { PANEL_HALF = 16, PANEL_LANES = 32, PANEL_TILE = 8 };

/* c (rows, lanes) = fade * c + a (rows, k) times b (k, lanes). Element (i, j) of a is a[i * a_row +
 * j * a_k]; a_row or a_k is 1. */
typedef struct panel_product {
  int64_t rows, k; /* rows: a multiple of PANEL_TILE */
  const float *a, *b;
  int64_t a_row, a_k;
  float *c;
  const float *fade; /* (lanes); NULL: c is only written */
} panel_product;

/* The state of each lane after the keys that were processed so far. */
typedef struct panel_sums {
  float largest[PANEL_LANES]; /* largest score */
  float total[PANEL_LANES];   /* sum of the exponentials */
  float fade[PANEL_LANES];    /* factor of the sums over previous keys */
} panel_sums;

typedef struct panel_kernels {
  void (*multiply)(int lanes, const panel_product *product);
  /* Multiplies like `multiply`, with a and b in the words of pairs.h; k counts words. NULL if this
   * is not faster on the processor. */
  void (*multiply_pairs)(int lanes, const panel_product *product);
  /* Replaces scores (n, lanes) of further keys by exponentials relative to the largest so far.
   * After a NaN score, the sums of a lane stay NaN. */
  void (*exponentiate)(int lanes, int64_t n, float *scores, panel_sums *sums);
  void (*cap)(int64_t n, float softcap, float *scores); /* softcap * tanh(score / softcap) */
  int32_t (*largest_bits)(int64_t n, const float *x);   /* largest magnitude as bits; 0 if n is 0 */
} panel_kernels;
panel_kernels choose_panel_kernels(void);

#endif
