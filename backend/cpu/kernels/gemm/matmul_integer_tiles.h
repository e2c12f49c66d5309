#ifndef BACKEND_CPU_KERNELS_GEMM_MATMUL_INTEGER_TILES_H
#define BACKEND_CPU_KERNELS_GEMM_MATMUL_INTEGER_TILES_H
/* Products of 8-bit integers by a packed b, in tiles of amx.h's sizes: rows of a as they lie, and
 * sums as out has them. */
#include "backend/cpu/kernels/gemm/matmul_integer_args.h"

/* b as tiles: (strips of TILED_COLUMNS columns, steps of TILED_BYTES of k, halves of the strip, 16
 * words of four k, 16 columns), zeros where there is no more of it. */
enum { TILED_ROWS = 32, TILED_COLUMNS = 32, TILED_BYTES = 64 };
KERNEL(matmul_integer_pack, matmul_integer_args);

/* Whether this processor is faster with b as tiles than with b as it is. */
bool matmul_integer_likes_tiles(const matmul_integer_args *args);

size_t matmul_integer_tiles_scratch(const kernel_context *ctx, const matmul_integer_args *args);
/* matmul_integer of args->tiles. */
bool matmul_integer_run_tiles(const kernel_context *ctx, const matmul_integer_args *args);

#endif
