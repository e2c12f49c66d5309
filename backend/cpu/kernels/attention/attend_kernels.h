#ifndef BACKEND_CPU_KERNELS_ATTENTION_ATTEND_KERNELS_H
#define BACKEND_CPU_KERNELS_ATTENTION_ATTEND_KERNELS_H
/* Inner kernels of attention for many queries, on the widest vectors the processor has. Each query
 * is a lane of a panel, (n, lanes) floats: lanes are PANEL_HALF or PANEL_LANES. */
#include "base/kernel.h"

enum { PANEL_HALF = 16, PANEL_LANES = 32, PANEL_TILE = 8 };

/* c (rows, lanes) = fade * c + a (rows, k) times b (k, lanes). Element (i, j) of a is
 * a[i * a_row + j * a_k], where one of a_row and a_k is 1. */
typedef struct panel_product {
  int64_t rows, k; /* rows: a multiple of PANEL_TILE */
  const float *a, *b;
  int64_t a_row, a_k;
  float *c;
  const float *fade; /* (lanes); NULL: c is only written */
} panel_product;

/* Of the keys that were seen so far, by lane. */
typedef struct panel_sums {
  float largest[PANEL_LANES]; /* score */
  float total[PANEL_LANES];   /* of the exponentials */
  float fade[PANEL_LANES];    /* what sums of the keys before shrink by */
} panel_sums;

typedef struct panel_kernels {
  void (*multiply)(int lanes, const panel_product *product);
  /* The same where a and b are words of pairs.h, whose number k is; NULL: no faster here. */
  void (*multiply_pairs)(int lanes, const panel_product *product);
  /* Scores (n, lanes) of further keys become exponentials relative to the largest so far. A lane
   * with a NaN is NaN from then on. */
  void (*soften)(int lanes, int64_t n, float *scores, panel_sums *sums);
  void (*cap)(int64_t n, float softcap, float *scores); /* softcap * tanh(score / softcap) */
  int32_t (*largest_bits)(int64_t n, const float *x);   /* of magnitudes; 0 where there are none */
} panel_kernels;
panel_kernels choose_panel_kernels(void);

#endif
