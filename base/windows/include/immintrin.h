#ifndef BASE_WINDOWS_INCLUDE_IMMINTRIN_H
#define BASE_WINDOWS_INCLUDE_IMMINTRIN_H
/* The compiler's header, except that strides of tiles have 64 bits. gcc's macros convert strides to
 * long, which has 32 bits on Windows, and the assembler rejects 32-bit registers. */
#pragma GCC system_header
#include_next <immintrin.h>

#undef _tile_loadd
#undef _tile_stored
#define _tile_loadd(tile, from, stride) \
  __asm__ volatile("tileloadd (%0,%1,1), %%tmm" #tile ::"r"(from), "r"((long long)(stride)))
#define _tile_stored(tile, to, stride)                                                        \
  __asm__ volatile("tilestored %%tmm" #tile ", (%0,%1,1)" ::"r"(to), "r"((long long)(stride)) \
                   : "memory")

#endif
