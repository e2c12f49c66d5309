#ifndef BACKEND_CPU_KERNELS_GEMM_AMX_H
#define BACKEND_CPU_KERNELS_GEMM_AMX_H
/* Multiplies in AMX's registers tmm0 to tmm7, which have 16 rows of 64 bytes: c (16, 16) of 32 bits
 * += a (16, 16 words) * b (16 words, 16). A word is two BF16 or four bytes of neighbouring k.
 * amx_begin configures all tiles of the calling thread as whole until amx_end (both together: 56 ns
 * on Sapphire Rapids). Meanwhile the system saves 8 KB more of the thread's state. */
#include "backend/cpu/kernels/support/features.h"

/* Size of a tile, which processors without AMX use as well. */
enum { AMX_ROWS = 16, AMX_WORDS = 16 /* words per row */ };

#if KERNEL_X86
#include <immintrin.h>

TARGET_AMX KERNEL_INLINE void amx_begin(void) {
  typedef struct configuration {
    uint8_t palette, start_row, reserved[14];
    uint16_t row_bytes[16];
    uint8_t rows[16];
  } configuration;
  static const _Alignas(64) configuration whole = {.palette = 1,
                                                   .row_bytes = {64, 64, 64, 64, 64, 64, 64, 64},
                                                   .rows = {16, 16, 16, 16, 16, 16, 16, 16}};
  _tile_loadconfig(&whole);
}
TARGET_AMX KERNEL_INLINE void amx_end(void) { _tile_release(); }

/* Tells the compiler that memory is read. Call it before loading tiles that were stored before,
 * because gcc does not know that the load intrinsics read memory. */
KERNEL_INLINE void amx_compiler_barrier(void) { __asm__ volatile("" ::: "memory"); }

/* The functions below add products of BF16 words. `rows` and `columns` count tiles, 1 or 2 each.
 * Tiles 0 to 3 hold the sums (rows, columns), tiles 4 and 5 hold a, 6 and 7 b. Steps are the bytes
 * between rows. */
enum { AMX_ROW_BYTES = AMX_WORDS * 4 };

TARGET_AMX KERNEL_INLINE void amx_clear_sums(void) {
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
}

TARGET_AMX KERNEL_INLINE void amx_load_sums(int rows, int columns, const void *c, int64_t stride) {
  const char *below = (const char *)c + AMX_ROWS * stride;
  _tile_loadd(0, c, stride);
  if (columns == 2) _tile_loadd(1, (const char *)c + AMX_ROW_BYTES, stride);
  if (rows == 2) _tile_loadd(2, below, stride);
  if (rows == 2 && columns == 2) _tile_loadd(3, below + AMX_ROW_BYTES, stride);
}

TARGET_AMX KERNEL_INLINE void amx_store_sums(int rows, int columns, void *c, int64_t stride) {
  char *below = (char *)c + AMX_ROWS * stride;
  _tile_stored(0, c, stride);
  if (columns == 2) _tile_stored(1, (char *)c + AMX_ROW_BYTES, stride);
  if (rows == 2) _tile_stored(2, below, stride);
  if (rows == 2 && columns == 2) _tile_stored(3, below + AMX_ROW_BYTES, stride);
}

TARGET_AMX KERNEL_INLINE void amx_add_products(int rows, int columns, const void *a,
                                               int64_t a_stride, const void *b, int64_t b_stride) {
  _tile_loadd(6, b, b_stride);
  _tile_loadd(4, a, a_stride);
  if (columns == 2) _tile_loadd(7, (const char *)b + AMX_ROW_BYTES, b_stride);
  if (rows == 2) _tile_loadd(5, (const char *)a + AMX_ROWS * a_stride, a_stride);
  _tile_dpbf16ps(0, 4, 6);
  if (columns == 2) _tile_dpbf16ps(1, 4, 7);
  if (rows == 2) _tile_dpbf16ps(2, 5, 6);
  if (rows == 2 && columns == 2) _tile_dpbf16ps(3, 5, 7);
}
#endif

#endif
