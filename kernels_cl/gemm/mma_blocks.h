/* The tiles of gemm_mma and matmul_dots_mma: a group of WARPS_M x WARPS_N sub-groups ("warps")
 * computes TILE rows and columns of out, a warp BLOCKS_M x BLOCKS_N blocks of mma.h. Its sums are
 * [BLOCKS_M][BLOCKS_N][SUMS]. For sum i of these in a lane, SUM_OF(sums, i) is its value, and
 * ROW_AT(lane, i) and COLUMN_AT(lane, i) are its place in the warp's rows and columns. */
#ifndef TILE
#define TILE 64
#define WARPS_M 2
#define WARPS_N 2
#endif
#define BLOCKS_M (TILE / WARPS_M / MMA_M)
#define BLOCKS_N (TILE / WARPS_N / MMA_N)
#define BLOCKS (BLOCKS_M * BLOCKS_N)
#define GROUP (WARPS_M * WARPS_N * MMA_LANES)
#define SUM_OF(sums, i) (sums)[(i) / SUMS / BLOCKS_N][(i) / SUMS % BLOCKS_N][(i) % SUMS]
#define ROW_AT(lane, i) ((i) / SUMS / BLOCKS_N * MMA_M + SUM_ROW(lane, (i) % SUMS))
#define COLUMN_AT(lane, i) ((i) / SUMS % BLOCKS_N * MMA_N + SUM_COLUMN(lane, (i) % SUMS))
