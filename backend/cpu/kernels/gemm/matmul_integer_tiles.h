#ifndef BACKEND_CPU_KERNELS_GEMM_MATMUL_INTEGER_TILES_H
#define BACKEND_CPU_KERNELS_GEMM_MATMUL_INTEGER_TILES_H
/* Products of 8-bit integers with a packed b, in tiles of amx.h's sizes. Rows of a are read in
 * place, and sums have the order of out. */
#include "backend/cpu/kernels/gemm/matmul_integer_args.h"

/* Packed b: (strips of TILED_COLUMNS columns, steps of TILED_BYTES of k, halves of the strip, 16
 * words of four k, 16 columns), padded with zeros. */
enum { TILED_ROWS = 32, TILED_COLUMNS = 32, TILED_BYTES = 64 };
KERNEL(matmul_integer_pack, matmul_integer_args);

/* True if this processor is faster with tiles than with the plain b. */
bool matmul_integer_suits_tiles(const matmul_integer_args *args);

size_t matmul_integer_tiles_scratch(const kernel_context *ctx, const matmul_integer_args *args);
/* Runs matmul_integer with args->tiles. Returns false if scratch memory is exhausted. */
bool matmul_integer_run_tiles(const kernel_context *ctx, const matmul_integer_args *args);

#endif
