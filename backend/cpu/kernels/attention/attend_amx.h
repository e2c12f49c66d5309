#ifndef BACKEND_CPU_KERNELS_ATTENTION_ATTEND_AMX_H
#define BACKEND_CPU_KERNELS_ATTENTION_ATTEND_AMX_H
/* Products of pairs of attend_kernels.h by AMX's tiles. */
#include "backend/cpu/kernels/attention/attend_kernels.h"

enum { PANEL_PAIRS = 32 }; /* rows, and twice the words, of which products have a multiple */

/* Those of a thread are between begin and end. Of a, words of a row are neighbours. */
typedef struct panel_tiles {
  void (*begin)(void), (*end)(void);
  void (*multiply)(int lanes, const panel_product *product);
  /* Of x (rows, width), multiples of PANEL_PAIRS, words of neighbouring rows as rows
   * (width, rows / 2; step apart). */
  void (*join_columns)(const float *x, int64_t rows, int64_t width, int64_t step, uint32_t *to);
  /* As soften of panel_kernels, to words of neighbouring scores (up to a multiple of 16, lanes),
   * those behind the last as zeros. */
  void (*soften)(int lanes, int64_t n, const float *scores, uint32_t *words, panel_sums *sums);
} panel_tiles;

const panel_tiles *choose_panel_tiles(void); /* NULL: the processor has none */

#endif
