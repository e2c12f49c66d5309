/* Products of bytes by AMX's tiles, of 16 rows of 16 words of four bytes: a step adds to sums (32
 * rows, 32 columns) the products of 32 rows of a, of 16 words each, and 16 rows of b, of 32 words.
 * AMX_BYTES:
 *   AMX_BYTES_NONE
 *   AMX_BYTES_ASM    tiles 0 to 3 are sums, 4 and 5 a's, 6 and 7 b's. A work-item says
 *                    amx_bytes_begin first and amx_bytes_end last. The compiler knows of no tiles,
 *                    so each statement is volatile.
 *   AMX_BYTES_LOCAL  the same sums in OpenCL C, on any device: for tests
 * A_SIGNED, B_SIGNED: what the bytes are. b is in B_SPACE, sums in private memory. ASKED: a or b,
 * the one whose tiles lie side by side in global memory. */
#ifndef AMX_BYTES_H
#define AMX_BYTES_H
#include "common.h"
#define AMX_BYTES_NONE 0
#define AMX_BYTES_ASM 1
#define AMX_BYTES_LOCAL 2
#ifndef AMX_BYTES
#define AMX_BYTES AMX_BYTES_NONE
#endif
#define SIDE 16          /* rows, words and columns of a tile */
#define BLOCK (2 * SIDE) /* rows and columns of sums */
#define STEP_BYTES 64    /* of k */
#define TILE_BYTES (SIDE * STEP_BYTES)

/* Where tiles of a or of b lie, in bytes: rows of a tile, and the second of two tiles, are so far
 * from the first; what the next step takes is `step` further. */
typedef struct tile_strides {
  long row, second, step;
} tile_strides;

/* What sums begin with: rows, and the second of two tiles beside each other, are so many ints from
 * the first. */
typedef struct sums_source {
  const int *at;
  int row, second;
} sums_source;

#if AMX_BYTES == AMX_BYTES_ASM
static inline void amx_bytes_begin(void) {
  uchar c[64] = {1}; /* the palette; from 16 on words of how many bytes rows have; 48: rows */
  for (int i = 0; i < 8; i++) c[16 + 2 * i] = STEP_BYTES, c[48 + i] = SIDE;
  __asm__ volatile("ldtilecfg (%0)" : : "r"(c) : "memory");
}
static inline void amx_bytes_end(void) { __asm__ volatile("tilerelease" : : : "memory"); }

#define LOAD_TILE(tile, p, row)                        \
  __asm__ volatile("tileloadd (%0,%1,1), %%tmm" #tile  \
                   :                                   \
                   : "r"((ulong)(p)), "r"((long)(row)) \
                   : "memory")
#define STORE_TILE(tile, p, row)                          \
  __asm__ volatile("tilestored %%tmm" #tile ", (%0,%1,1)" \
                   :                                      \
                   : "r"((ulong)(p)), "r"((long)(row))    \
                   : "memory")
#if A_SIGNED && B_SIGNED
#define PRODUCT "tdpbssd"
#elif A_SIGNED
#define PRODUCT "tdpbsud"
#elif B_SIGNED
#define PRODUCT "tdpbusd"
#else
#define PRODUCT "tdpbuud"
#endif
#define ADD_PRODUCTS(c, a, b) \
  __asm__ volatile(PRODUCT " %%tmm" #b ", %%tmm" #a ", %%tmm" #c : : : "memory")
#else
static inline void amx_bytes_begin(void) {}
static inline void amx_bytes_end(void) {}
#endif

/* sums (BLOCK, BLOCK), rows `pitch` apart, = what is there of `from` + n steps. ask: not 0, what
 * lies so many bytes behind the tiles of the operand that ASKED names is asked for. */
static inline void add_blocks(int n, const __global uchar *a, tile_strides of_a,
                              B_SPACE const uchar *b, tile_strides of_b, sums_source from,
                              int *sums, int pitch, int ask) {
#if AMX_BYTES == AMX_BYTES_ASM
  int *below = sums + SIDE * pitch;
  LOAD_TILE(0, from.at, 4 * from.row);
  LOAD_TILE(1, from.at + from.second, 4 * from.row);
  LOAD_TILE(2, from.at + SIDE * from.row, 4 * from.row);
  LOAD_TILE(3, from.at + SIDE * from.row + from.second, 4 * from.row);
  for (int i = 0; i < n; i++, a += of_a.step, b += of_b.step) {
    for (int j = 0; j < 2 * TILE_BYTES && ask; j += 64) ASK_FOR(ASKED + ask + j);
    LOAD_TILE(4, a, of_a.row);
    LOAD_TILE(6, b, of_b.row);
    LOAD_TILE(7, b + of_b.second, of_b.row);
    LOAD_TILE(5, a + of_a.second, of_a.row);
    ADD_PRODUCTS(0, 4, 6);
    ADD_PRODUCTS(1, 4, 7);
    ADD_PRODUCTS(2, 5, 6);
    ADD_PRODUCTS(3, 5, 7);
  }
  STORE_TILE(0, sums, 4 * pitch);
  STORE_TILE(1, sums + SIDE, 4 * pitch);
  STORE_TILE(2, below, 4 * pitch);
  STORE_TILE(3, below + SIDE, 4 * pitch);
#else
  for (int r = 0; r < BLOCK; r++)
    for (int c = 0; c < BLOCK; c++) {
      const __global uchar *row = a + r / SIDE * of_a.second + r % SIDE * of_a.row;
      B_SPACE const uchar *column = b + c / SIDE * of_b.second + c % SIDE * 4;
      int sum = from.at[r * from.row + c / SIDE * from.second + c % SIDE];
      for (int i = 0; i < n * STEP_BYTES; i++) {
        const uchar x = row[i / STEP_BYTES * of_a.step + i % STEP_BYTES],
                    y = column[i / STEP_BYTES * of_b.step + i % STEP_BYTES / 4 * of_b.row + i % 4];
        sum += (A_SIGNED ? (int)as_char(x) : (int)x) * (B_SIGNED ? (int)as_char(y) : (int)y);
      }
      sums[r * pitch + c] = sum;
    }
#endif
}
#endif
