#ifndef BACKEND_CPU_KERNELS_GEMM_MATMUL_INTEGER_KERNELS_H
#define BACKEND_CPU_KERNELS_GEMM_MATMUL_INTEGER_KERNELS_H
/* How rows of a become words that conv_integer_kernels.h multiplies, and what is stored of sums. */
#include "backend/cpu/kernels/conv/conv_integer_kernels.h"
#include "backend/cpu/kernels/gemm/matmul_integer_args.h"

enum { INTEGER_COLUMNS = 16 /* columns of out at a time */ };

/* Rows [row, row + rows) of out, at most INTEGER_TILE, and INTEGER_COLUMNS columns or fewer. */
typedef struct out_tile {
  int64_t row, column;
  int rows, columns;
} out_tile;

/* Sums of a tile, so many apart. */
typedef struct out_sums {
  const int32_t *at;
  int64_t row, column; /* one of them is 1 */
} out_sums;

typedef struct integer_rows {
  /* to (words, INTEGER_TILE) = `rows` rows of k bytes, one behind the other, as words of four, all
   * bits of flip the other way; zeros, of which flip is no part or is, behind a row's last byte */
  void (*pack)(const unsigned char *x, int64_t k, int rows, uint32_t flip, uint32_t *to);
  /* Of sums all INTEGER_COLUMNS columns can be read. */
  void (*store)(const matmul_integer_args *args, const out_tile *tile, const out_sums *sums);
} integer_rows;
integer_rows choose_integer_rows(void);

#endif
