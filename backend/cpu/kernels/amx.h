#ifndef BACKEND_CPU_KERNELS_AMX_H
#define BACKEND_CPU_KERNELS_AMX_H
/* AMX's registers. tmm0 to tmm7, of 16 rows of 64 bytes each: sums c (16, 16) of 32 bits += a (16,
 * 16 words) times b (16 words, 16): a word is two BF16 or four bytes of neighbouring k. Between
 * amx_begin and amx_end a thread's tiles are all whole (measured on Sapphire Rapids: both together
 * 56 ns); the system keeps 8 KB more of it meanwhile. */
#include "backend/cpu/kernels/features.h"

#if KERNEL_X86
#include <immintrin.h>

enum { AMX_ROWS = 16, AMX_WORDS = 16 /* of a row */ };

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

/* Before loads of what this function, or one that calls it, has stored: they do not tell gcc that
 * they read memory. */
KERNEL_INLINE void amx_sees_memory(void) { __asm__ volatile("" ::: "memory"); }
#endif

#endif
