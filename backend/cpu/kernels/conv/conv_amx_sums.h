#ifndef BACKEND_CPU_KERNELS_CONV_CONV_AMX_SUMS_H
#define BACKEND_CPU_KERNELS_CONV_CONV_AMX_SUMS_H
/* Sums of rounded convolutions by AMX, with what follows them, where outputs are stored. */
#include "backend/cpu/kernels/conv/conv_window.h"

/* What a task makes: rows and columns of a slice of outputs of a strip. Of several rows all
 * columns.
 */
typedef struct conv_patch {
  int64_t image, group, strip, outputs; /* of the strip */
  int64_t z, row, rows, column, columns;
} conv_patch;

/* How slices of outputs are cut into patches: several whole rows each, or a part of one. */
typedef struct conv_cut {
  int64_t rows, columns; /* of a patch */
  int64_t row_patches, column_patches;
} conv_cut;

/* Patches of at most so many columns, of rows that begin `row` columns apart; at least so many of
 * them, if there are rows enough, one below the other. */
conv_cut conv_cut_slices(const conv_dim dims[], int64_t most_columns, int64_t row,
                         int64_t row_patches);
/* Of a slice. */
static inline int64_t conv_cut_patches(const conv_cut *c) {
  return c->row_patches * c->column_patches;
}
/* Sets where the place-th patch of all slices is. */
void conv_cut_place(const conv_cut *c, const conv_dim dims[], int64_t place, conv_patch *k);

/* Outputs of sums are `step` apart, rows row_step. */
void conv_sums_store(const conv_args *p, const conv_patch *k, const float *sums, int64_t step,
                     int64_t row_step, float *memory /* (outputs, rows, columns) */);

#endif
