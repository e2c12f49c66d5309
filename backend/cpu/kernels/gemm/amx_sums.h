#ifndef BACKEND_CPU_KERNELS_GEMM_AMX_SUMS_H
#define BACKEND_CPU_KERNELS_GEMM_AMX_SUMS_H
/* Sums of products of words of pairs.h on AMX (amx.h), 16 or 32 outputs by 16 or 32 columns in four
 * tiles, and the packing of x for them. Requires cpu_has_amx(). */
#include <stdbool.h>
#include <stdint.h>

#include "backend/cpu/kernels/gemm/amx.h"

enum { AMX_OUTPUTS = 32, AMX_COLUMNS = 32, AMX_TILE_WORDS = 16 * 16 };

/* c (outputs, columns) = or += a * b. A step is AMX_WORDS words of k. The steps (taps) of a block
 * read the same words of b at other columns. */
typedef struct amx_sums {
  int64_t blocks, taps;
  const uint32_t *a; /* (blocks, taps, 2, 16, 16): tiles of both halves of the outputs */
  const uint32_t *b; /* word k of a column of tap t: b[k * b_stride + offsets[t] + column] */
  int64_t b_stride;
  const int64_t *offsets; /* (taps) */
  float *c;               /* rows c_stride apart */
  int64_t c_stride;
  bool adds;       /* otherwise c is overwritten */
  bool prefetches; /* prefetches the weights that follow in memory */
} amx_sums;

/* Configure and release the calling thread's tiles. */
void amx_sums_begin(void);
void amx_sums_end(void);
/* outputs, columns: 16 or 32. */
void amx_sums_run(const amx_sums *sums, int outputs, int columns);

/* Packs a panel (words, AMX_COLUMNS), with 16 or 32 valid columns, from rows of x that are `stride`
 * apart. x is F32 or BF16. Words after the last row are zeros. */
void amx_pack_panel(const void *x, bool is_rounded, int64_t stride, int64_t rows, int64_t words,
                    int columns, uint32_t *to);

#endif
