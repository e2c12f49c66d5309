#ifndef BACKEND_CPU_KERNELS_GEMM_PANEL_ROWS_H
#define BACKEND_CPU_KERNELS_GEMM_PANEL_ROWS_H
/* Picks rows of a table that is also the b of a product. */
#include "base/encoding.h"
#include "base/kernel.h"

/* out[p] = row index[p] of the table, from its panels if present, otherwise from x. An index out of
 * range is recorded as a fault and clamped. */
typedef struct panel_rows_args {
  const void *x;      /* (rows, row), plain or encoded; read if panels is NULL */
  const void *panels; /* the table packed by kernel_matmul_pack, or NULL */
  ktensor index;      /* with merged dimensions */
  void *out;          /* (n_picks, row), contiguous */
  dtype x_type, type; /* dtype of a plain x; dtype of out */
  encoding encoding;  /* encoding of x */
  int64_t rows, row, n_picks;
} panel_rows_args;
KERNEL(panel_rows, panel_rows_args);

#endif
