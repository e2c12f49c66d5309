#ifndef BACKEND_CPU_KERNELS_GEMM_PANEL_ROWS_H
#define BACKEND_CPU_KERNELS_GEMM_PANEL_ROWS_H
/* Rows of a table that a product reads, too, as its b. */
#include "base/encoding.h"
#include "base/kernel.h"

/* out[p] = row index[p] of the table, of its panels where they are there, else of x. An index out
 * of range is recorded as a fault and clamped. */
typedef struct panel_rows_args {
  const void *x;      /* (rows, row), plain or encoded; where there are no */
  const void *panels; /* of the same, by kernel_matmul_pack */
  ktensor index;      /* collapsed */
  void *out;          /* (n_picks, row), contiguous */
  dtype x_type, type; /* of a plain x; of out */
  encoding encoding;  /* of x */
  int64_t rows, row, n_picks;
} panel_rows_args;
KERNEL(panel_rows, panel_rows_args);

#endif
