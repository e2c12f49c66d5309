#ifndef BACKEND_CPU_KERNELS_CONV_SUMS_H
#define BACKEND_CPU_KERNELS_CONV_SUMS_H
/* Sums of rounded convolutions by AMX, with what follows them, where outputs are stored. */
#include "backend/cpu/kernels/conv_window.h"

/* What a task makes: rows and columns of a slice of outputs of a strip. Of several rows all
 * columns.
 */
typedef struct conv_patch {
  int64_t image, group, strip, outputs; /* of the strip */
  int64_t z, row, rows, column, columns;
} conv_patch;

/* Outputs of sums are `step` apart, rows row_step. */
void conv_sums_store(const conv_args *p, const conv_patch *k, const float *sums, int64_t step,
                     int64_t row_step, float *memory /* (outputs, rows, columns) */);

#endif
