#ifndef BACKEND_CPU_KERNELS_GEMM_MATMUL_INTEGER_KERNELS_H
#define BACKEND_CPU_KERNELS_GEMM_MATMUL_INTEGER_KERNELS_H
/* Packs rows of a as words that conv_integer_kernels.h multiplies, and stores sums. */
#include "backend/cpu/kernels/conv/conv_integer_kernels.h"
#include "backend/cpu/kernels/gemm/matmul_integer_args.h"

enum { INTEGER_COLUMNS = 16 /* columns of out at a time */ };

/* Rows [row, row + rows) of out, at most INTEGER_TILE, and at most INTEGER_COLUMNS columns. */
typedef struct out_tile {
  int64_t row, column;
  int rows, columns;
} out_tile;

/* Sums of a tile. */
typedef struct out_sums {
  const int32_t *at;
  int64_t row, column; /* distance between rows, and between columns; one of them is 1 */
} out_sums;

typedef struct integer_rows {
  /* Packs `rows` contiguous rows of k bytes to (words, INTEGER_TILE) words of four bytes, with the
   * bits of flip inverted. Bytes after k are zeros, which flip may invert. */
  void (*pack)(const unsigned char *x, int64_t k, int rows, uint32_t flip, uint32_t *to);
  /* Stores the results of a tile. All INTEGER_COLUMNS columns of sums must be readable. */
  void (*store)(const matmul_integer_args *args, const out_tile *tile, const out_sums *sums);
} integer_rows;
/* Returns the functions for this processor. */
integer_rows choose_integer_rows(void);

#endif
