/* The units for matrices of mma.h: instructions that multiply blocks over 16 k. MMA selects one:
 *   MMA_LDMATRIX    NVIDIA, compute capability 8.0 or later: mma.sync, fragments by ldmatrix
 *   MMA_SYNC        the same with fragments loaded word by word
 *   MMA_TURING      NVIDIA, compute capability 7.5: mma.sync of half the depth, F16 only
 *   MMA_WMMA_11     AMD RDNA 3: v_wmma, whose two halves of a wave hold the same factors
 *   MMA_WMMA_12     AMD RDNA 4: v_wmma, whose halves hold different k
 *   MMA_MFMA        AMD CDNA 2 or later: v_mfma of 64 lanes
 *   MMA_DPAS_8      Intel Arc: 8 lanes, cl_intel_subgroup_matrix_multiply_accumulate
 *   MMA_DPAS_16     Intel Data Center Max and Xe2: the same with 16 lanes
 * A unit defines, for lane l and item i of a fragment:
 *   MMA_LANES, MMA_M, MMA_N       lanes; rows and columns of a block
 *   A_ITEMS, A_PER_WORD           items of a fragment of a: words, or their halves if 2 per word
 *   A_ROW(l, i), A_AT(l, i)       the row of an item, and its position in the row
 *   B_ITEMS, B_COLUMN, B_AT       the same of b, whose items are words
 *   SUMS, SUM_ROW, SUM_COLUMN     floats of a fragment of the sums
 *   SUM_RUN                       sums that are neighbours in a row
 * A test compiles this file as C. Sources: PTX ISA 8.7, 9.7.14; AMD's matrix instruction
 * calculator; the text of Intel's extension. */
#ifndef MMA_UNITS_H
#define MMA_UNITS_H
#define MMA_LDMATRIX 1
#define MMA_SYNC 2
#define MMA_TURING 3
#define MMA_WMMA_11 4
#define MMA_WMMA_12 5
#define MMA_MFMA 6
#define MMA_DPAS_8 7
#define MMA_DPAS_16 8
#ifndef MMA
#define MMA MMA_SYNC
#define MMA_EMULATED 1
#endif
#define MMA_WORDS 8 /* words of a row of a, or of a column of b, in a block */

#define A_PER_WORD 1
#define SUM_RUN 1
#if MMA <= MMA_TURING
#define MMA_LANES 32
#define MMA_M 16
#define MMA_N 8
#define A_ITEMS 4
#define A_ROW(l, i) ((l) / 4 + (i) % 2 * 8)
#define A_AT(l, i) ((l) % 4 + (i) / 2 * 4)
#define B_ITEMS 2
#define B_COLUMN(l, i) ((l) / 4)
#define B_AT(l, i) ((l) % 4 + (i)*4)
#define SUMS 4
#define SUM_ROW(l, i) ((l) / 4 + (i) / 2 * 8)
#define SUM_COLUMN(l, i) ((l) % 4 * 2 + (i) % 2)
#undef SUM_RUN
#define SUM_RUN 2
#elif MMA <= MMA_MFMA
#define MMA_LANES (MMA == MMA_MFMA ? 64 : 32)
#define MMA_M 16
#define MMA_N 16
#define A_ITEMS (MMA == MMA_WMMA_11 ? 8 : MMA == MMA_WMMA_12 ? 4 : 2)
#define A_ROW(l, i) ((l) % 16)
#define A_AT(l, i) ((MMA == MMA_WMMA_11 ? 0 : (l) / 16 * A_ITEMS) + (i))
#define B_ITEMS A_ITEMS
#define B_COLUMN(l, i) A_ROW(l, i)
#define B_AT(l, i) A_AT(l, i)
#define SUMS (256 / MMA_LANES)
#define SUM_ROW(l, i) (MMA == MMA_WMMA_11 ? (l) / 16 + 2 * (i) : (l) / 16 * SUMS + (i))
#define SUM_COLUMN(l, i) ((l) % 16)
#else
#define MMA_LANES (MMA == MMA_DPAS_8 ? 8 : 16)
#define MMA_M 8
#define MMA_N MMA_LANES
#define A_ITEMS 8
#if MMA == MMA_DPAS_16
#undef A_PER_WORD
#define A_PER_WORD 2
#endif
#define A_ROW(l, i) (i)
#define A_AT(l, i) (l)
#define B_ITEMS 8
#define B_COLUMN(l, i) (l)
#define B_AT(l, i) (i)
#define SUMS 8
#define SUM_ROW(l, i) (i)
#define SUM_COLUMN(l, i) (l)
#endif
#endif
