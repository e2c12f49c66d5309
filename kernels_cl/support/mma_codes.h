/* Products of blocks of bytes over 32 k, with sums in int, by the units of mma.h: rows of signed
 * bytes and columns of codes, which are unsigned. A word holds four k, so that blocks and fragments
 * have as many words as those of 16-bit floats, and the same layout. MMA_EMULATED computes the same
 * in OpenCL C.
 *
 * FLIP_CODES: the unit multiplies signed bytes only. With the highest bit of each byte flipped, a
 * column has the codes - 128, so the caller adds 128 * the sum of the row.
 *
 * load_codes loads a fragment of columns, as load_b, for the part `span` of k, of n_spans equal
 * ones (1 or 2). MULTIPLY_CODES(c, x, y, span, n_spans, lane) adds to the ints c the products of a
 * lane's fragments over that part.
 *
 * HOLD_PRODUCTS: later products do not begin before it. AMD's compiler otherwise computes the
 * products of all blocks before it uses the first, for which the registers do not suffice. */
#ifndef MMA_CODES_H
#define MMA_CODES_H
#include "add_dots.h"
#include "mma.h"
#define FLIP_CODES (MMA == MMA_MFMA)

#if MMA >= MMA_WMMA_11 && MMA <= MMA_MFMA && !MMA_EMULATED
#define HOLD_PRODUCTS __builtin_amdgcn_sched_barrier(0)
#else
#define HOLD_PRODUCTS
#endif

#if MMA_EMULATED
#if FLIP_CODES
#define CODE_BYTE char
#else
#define CODE_BYTE uchar
#endif
static inline void multiply_codes(int *c, fragment x, fragment y, int span, int n_spans, int lane) {
  const int n = MMA_WORDS / n_spans;
  for (int i = 0; i < SUMS; i++)
    for (int k = span * n; k < (span + 1) * n; k++)
      c[i] += DOT_OF_BYTES(CODE_BYTE, y.from[SUM_COLUMN(lane, i) * y.pitch + k],
                           as_int(x.from[SUM_ROW(lane, i) * x.pitch + k]));
}
#define load_codes(from, pitch, span, n_spans, lane) load_b(from, pitch, lane)
#define MULTIPLY_CODES(c, x, y, span, n_spans, lane) multiply_codes(c, x, y, span, n_spans, lane)
#else

/* Words outside of the span are zeros, since a span may be less deep than an instruction. */
static inline b_fragment load_codes(const __local uint *from, int pitch, int span, int n_spans,
                                    int lane) {
  b_fragment y = load_b(from, pitch, lane);
  UNROLL_MMA
  for (int i = 0; i < B_ITEMS; i++)
    if (B_AT(lane, i) * n_spans / MMA_WORDS != span) y.items[i] = 0;
  return y;
}
#define MULTIPLY_CODES(c, x, y, span, n_spans, lane) MULTIPLY_BYTES(c, (x).items, (y).items)

#if MMA <= MMA_SYNC
#define MULTIPLY_BYTES(c, x, y)                                                                 \
  __asm__ volatile(                                                                             \
      "mma.sync.aligned.m16n8k32.row.col.s32.s8.u8.s32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, " \
      "{%0,%1,%2,%3};"                                                                          \
      : "+r"((c)[0]), "+r"((c)[1]), "+r"((c)[2]), "+r"((c)[3])                                  \
      : "r"((x)[0]), "r"((x)[1]), "r"((x)[2]), "r"((x)[3]), "r"((y)[0]), "r"((y)[1]))
#elif MMA == MMA_TURING
#define MULTIPLY_ROWS(c, x, y)                                                                    \
  __asm__ volatile("mma.sync.aligned.m8n8k16.row.col.s32.s8.u8.s32 {%0,%1}, {%2}, {%3}, {%0,%1};" \
                   : "+r"((c)[0]), "+r"((c)[1])                                                   \
                   : "r"(x), "r"(y))
#define MULTIPLY_BYTES(c, x, y)           \
  {                                       \
    MULTIPLY_ROWS(c, (x)[0], (y)[0]);     \
    MULTIPLY_ROWS(c, (x)[2], (y)[1]);     \
    MULTIPLY_ROWS(c + 2, (x)[1], (y)[0]); \
    MULTIPLY_ROWS(c + 2, (x)[3], (y)[1]); \
  }
#else
/* UNIT_BYTES returns c + a * b of vectors. */
#if MMA == MMA_WMMA_11
#define UNIT_HALF(a, b, c) \
  __builtin_amdgcn_wmma_i32_16x16x16_iu8_w32(true, as_int4(a), false, as_int4(b), c, false)
#define UNIT_BYTES(a, b, c) UNIT_HALF((a).hi, (b).hi, UNIT_HALF((a).lo, (b).lo, c))
#elif MMA == MMA_WMMA_12
#define UNIT_HALF(a, b, c) \
  __builtin_amdgcn_wmma_i32_16x16x16_iu8_w32_gfx12(true, as_int2(a), false, as_int2(b), c, false)
#define UNIT_BYTES(a, b, c) UNIT_HALF((a).hi, (b).hi, UNIT_HALF((a).lo, (b).lo, c))
#elif MMA == MMA_MFMA && defined(__gfx90a__)
#define UNIT_HALF(a, b, c) __builtin_amdgcn_mfma_i32_16x16x16i8(as_int(a), as_int(b), c, 0, 0, 0)
#define UNIT_BYTES(a, b, c) UNIT_HALF((a).hi, (b).hi, UNIT_HALF((a).lo, (b).lo, c))
#elif MMA == MMA_MFMA
#define UNIT_BYTES(a, b, c) \
  __builtin_amdgcn_mfma_i32_16x16x32_i8(as_long(a), as_long(b), c, 0, 0, 0)
#else
#define UNIT_BYTES(a, b, c) intel_sub_group_i8_u8_matrix_mad_k32(DPAS_ROWS(a), b, c)
#endif
#define MULTIPLY_BYTES(c, x, y) \
  STORE_SUMS(UNIT_BYTES(LOAD_WORDS(x), LOAD_WORDS(y), LOAD_SUMS(c)), c)
#endif
#endif
#endif
