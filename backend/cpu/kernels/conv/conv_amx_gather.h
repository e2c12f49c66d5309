#ifndef BACKEND_CPU_KERNELS_CONV_CONV_AMX_GATHER_H
#define BACKEND_CPU_KERNELS_CONV_CONV_AMX_GATHER_H
/* The plan of a convolution on AMX, and the three ways to gather the words of x that tasks multiply
 * with the weight. A word holds two BF16 (pairs.h): two neighbouring channels, or two neighbours of
 * an input row if there are few channels. For each group the kernel computes out (outputs, columns)
 * = weight (strips of AMX_OUTPUTS outputs, words) * x (words, columns), where a column is one
 * output position. */
#include "backend/cpu/kernels/conv/conv_amx_weight.h"

/* The outputs of a task: part of a slice (z) of a strip. If there are several rows, they are whole
 * rows. */
typedef struct conv_amx_patch {
  int64_t image, group, strip;
  int64_t outputs; /* outputs of the strip, at most AMX_OUTPUTS */
  int64_t z, row, rows, column, columns;
} conv_amx_patch;

typedef struct conv_amx conv_amx;
struct conv_amx {
  const conv_args *args;
  int64_t products; /* groups; transposed: groups of all images */
  int64_t strips;   /* per group */
  int64_t words;    /* per column, a multiple of AMX_WORDS */
  int64_t depth;    /* multiplications per output */

  /* Copies rows [begin, end) of an image before its tasks run. NULL if tasks gather from x. */
  void (*copy_rows)(void *plan, int64_t begin, int64_t end);
  int64_t copied_rows, row_words; /* rows to copy; words of each */
  int64_t copied_words;           /* words of all groups */
  int64_t image;                  /* the image that is copied */
  uint32_t *copied;               /* planes: (groups, phases, words, seen),
                                     rows: (groups, channels, seen) */
  int64_t phases[CONV_DIMS];      /* planes: phases of the stride that taps read */
  int64_t seen[CONV_DIMS];        /* words of a copied plane along each dimension */
  int64_t plane;                  /* words from a copied plane to the next */

  /* A task is one share of the strips at one place. A place is a patch of at most max_columns
   * columns, or a patch that find_place returns. */
  int64_t places, strip_shares;
  bool strips_first; /* consecutive tasks have the same place; else the same share of the strips */
  void (*find_place)(const conv_amx *amx, int64_t place, conv_amx_patch *patch);
  int64_t max_columns;
  int64_t row_stride; /* columns from a row of outputs to the next */
  int64_t rows, columns, row_patches, column_patches;

  /* Returns the first word of a task's first column, after packing words to `panel` (panel_words)
   * if necessary. Word w of a column for tap t is w * step + offsets[t] words after it. */
  const uint32_t *(*gather)(const conv_amx *amx, const conv_amx_patch *patch, uint32_t *panel);
  int64_t panel_words;
  int64_t taps, step; /* step 0: tasks pack panels (words, sum_stride) */
  int64_t offsets[CONV_MAX_TAPS];
  int64_t blocks_at_once; /* blocks of AMX_WORDS words that one pass over the columns adds */
  bool prefetches;        /* prefetches weights during the first columns of a pass */

  /* Sums are (AMX_OUTPUTS, sum_stride). If store is set, it is called to store AMX_COLUMNS columns
   * at a time, from `column` of the task on. Otherwise all columns are stored with bias, epilogue
   * and steps.
   */
  int64_t sum_stride;
  void (*store)(const conv_amx *amx, const conv_amx_patch *patch, int64_t column,
                const float *sums);
};

/* Each function completes a plan whose args, products and strips are already set. */
void conv_amx_plan_planes(conv_amx *amx);
void conv_amx_plan_rows(conv_amx *amx);
void conv_amx_plan_transposed(conv_amx *amx);

#endif
