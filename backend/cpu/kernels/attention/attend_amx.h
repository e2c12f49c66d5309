#ifndef BACKEND_CPU_KERNELS_ATTENTION_ATTEND_AMX_H
#define BACKEND_CPU_KERNELS_ATTENTION_ATTEND_AMX_H
/* Products of pairs (attend_kernels.h) by AMX tiles. */
#include "backend/cpu/kernels/attention/attend_kernels.h"

enum { PANEL_PAIRS = 32 }; /* the rows of a product, and twice its words, are multiples of it */

/* Call multiply between begin and end, which configure the thread's tiles. a is row-major. */
typedef struct panel_tiles {
  void (*begin)(void), (*end)(void);
  void (*multiply)(int lanes, const panel_product *product);
  /* Transposes x (rows, width), multiples of PANEL_PAIRS, to words of neighbouring rows: (width,
   * rows / 2), rows `stride` apart. */
  void (*join_columns)(const float *x, int64_t rows, int64_t width, int64_t stride, uint32_t *to);
  /* Works like exponentiate of panel_kernels, but writes words of neighbouring scores, (words,
   * lanes), padded with zero words to a multiple of 16. */
  void (*exponentiate)(int lanes, int64_t n, const float *scores, uint32_t *words,
                       panel_sums *sums);
} panel_tiles;

const panel_tiles *choose_panel_tiles(void); /* NULL: the processor has no AMX */

#endif
