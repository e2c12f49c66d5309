/* Products of blocks of F16 or BF16 over 16 k, with sums in f32, by an instruction for matrices
 * (mma_units.h). The lanes of a sub-group multiply together. Words hold two k: the lower 16 bits
 * are the even one, so a row of a and a column of b have 8 words. MMA_EMULATED, for tests, computes
 * the same in OpenCL C, with the unit's shapes and order of sums. */
#ifndef MMA_H
#define MMA_H
#include "common.h"
#include "mma_units.h"
#ifndef MMA_EMULATED
#define MMA_EMULATED 0
#endif
#if MMA_EMULATED
#define UNROLL_MMA _Pragma("unroll 1") /* tests compile faster */
#else
#define UNROLL_MMA _Pragma("unroll")
#endif

/* Returns a word of two floats, rounded to nearest even. */
#if MMA <= MMA_SYNC && !MMA_EMULATED
#define DEFINE_PAIR(T, type)                                                         \
  static inline uint PASTE(pair_, T)(float even, float odd) {                        \
    uint word;                                                                       \
    __asm__("cvt.rn." type "x2.f32 %0, %1, %2;" : "=r"(word) : "f"(odd), "f"(even)); \
    return word;                                                                     \
  }
DEFINE_PAIR(F16, "f16")
DEFINE_PAIR(BF16, "bf16")
#else
static inline uint pair_BF16(float even, float odd) {
  return float_to_bf16(even) | (uint)float_to_bf16(odd) << 16;
}
static inline uint pair_F16(float even, float odd) {
#if MMA == MMA_TURING && !MMA_EMULATED
  uint word;
  __asm__("{.reg .b16 l, h; cvt.rn.f16.f32 l, %1; cvt.rn.f16.f32 h, %2; mov.b32 %0, {l, h};}"
          : "=r"(word)
          : "f"(even), "f"(odd));
  return word;
#elif HAS_HALF
  return as_uint((half2)((half)even, (half)odd));
#else
  __attribute__((aligned(4))) uchar h[4]; /* uchar: may alias half */
  vstore_half_rte(even, 0, (half *)h);
  vstore_half_rte(odd, 1, (half *)h);
  return h[0] | (uint)h[1] << 8 | (uint)h[2] << 16 | (uint)h[3] << 24;
#endif
}
#endif

/* Stores two texels of neighbouring rows as words of both. Column i goes to to[i * pitch]. */
static inline void store_pairs(uint4 even, uint4 odd, __local uint *to, int pitch) {
  const uint4 low = (even & 0xffffu) | odd << 16u, high = even >> 16u | (odd & 0xffff0000u);
  to[0] = low.x, to[pitch] = high.x;
  to[2 * pitch] = low.y, to[3 * pitch] = high.y;
  to[4 * pitch] = low.z, to[5 * pitch] = high.z;
  to[6 * pitch] = low.w, to[7 * pitch] = high.w;
}

/* ---------------------------------------------------------------- fragments */

/* load_a and load_b load a lane's fragment of a block in local memory. from: first row of a, or
 * first column of b, of the block. pitch: words from one row or column to the next, a multiple of
 * 4. The memory may change only after MULTIPLY. */
#if MMA_EMULATED
typedef struct fragment {
  const __local uint *from;
  int pitch;
} fragment;
typedef fragment a_fragment;
typedef fragment b_fragment;
static inline fragment load_a(const __local uint *from, int pitch, int lane) {
  (void)lane;
  return (fragment){from, pitch};
}
#define load_b load_a
#else
#if A_PER_WORD == 2
typedef ushort a_item;
#else
typedef uint a_item;
#endif
typedef struct a_fragment {
  a_item items[A_ITEMS];
} a_fragment;
typedef struct b_fragment {
  uint items[B_ITEMS];
} b_fragment;
#if MMA == MMA_LDMATRIX
#define SHARED_ADDRESS(p) ((uint)(size_t)(p))
static inline a_fragment load_a(const __local uint *from, int pitch, int lane) {
  a_fragment x;
  from += (lane % 8 + lane / 8 % 2 * 8) * pitch + lane / 16 * 4;
  __asm__ volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                   : "=r"(x.items[0]), "=r"(x.items[1]), "=r"(x.items[2]), "=r"(x.items[3])
                   : "r"(SHARED_ADDRESS(from))
                   : "memory");
  return x;
}
static inline b_fragment load_b(const __local uint *from, int pitch, int lane) {
  b_fragment y;
  from += lane % 8 * pitch + lane / 8 % 2 * 4;
  __asm__ volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0,%1}, [%2];"
                   : "=r"(y.items[0]), "=r"(y.items[1])
                   : "r"(SHARED_ADDRESS(from))
                   : "memory");
  return y;
}
#else
static inline a_fragment load_a(const __local uint *from, int pitch, int lane) {
  a_fragment x;
  UNROLL_MMA
  for (int i = 0; i < A_ITEMS; i++)
    x.items[i] =
        ((const __local a_item *)from)[A_ROW(lane, i) * pitch * A_PER_WORD + A_AT(lane, i)];
  return x;
}
static inline b_fragment load_b(const __local uint *from, int pitch, int lane) {
  b_fragment y;
  UNROLL_MMA
  for (int i = 0; i < B_ITEMS; i++) y.items[i] = from[B_COLUMN(lane, i) * pitch + B_AT(lane, i)];
  return y;
}
#endif
#endif

/* ---------------------------------------------------------------- the instructions */

/* MULTIPLY(T, c, x, y, lane) computes c += x * y of a lane's fragments. T: F16 or BF16. */
#if MMA_EMULATED
static inline float2 unpair_BF16(uint word) {
  return (float2)(as_float(word << 16), as_float(word & 0xffff0000u));
}
static inline float2 unpair_F16(uint word) {
  __attribute__((aligned(4))) uchar h[4]; /* uchar: may alias half */
  for (int i = 0; i < 4; i++) h[i] = (uchar)(word >> 8 * i);
  return (float2)(vload_half(0, (const half *)h), vload_half(1, (const half *)h));
}
#define DEFINE_MULTIPLY(T)                                                             \
  static inline void PASTE(multiply_, T)(float *c, fragment x, fragment y, int lane) { \
    for (int i = 0; i < SUMS; i++)                                                     \
      for (int k = 0; k < MMA_WORDS; k++) {                                            \
        const float2 p = PASTE(unpair_, T)(x.from[SUM_ROW(lane, i) * x.pitch + k]),    \
                     q = PASTE(unpair_, T)(y.from[SUM_COLUMN(lane, i) * y.pitch + k]); \
        c[i] = FMA(p.y, q.y, FMA(p.x, q.x, c[i]));                                     \
      }                                                                                \
  }
DEFINE_MULTIPLY(F16)
DEFINE_MULTIPLY(BF16)
#define MULTIPLY(T, c, x, y, lane) PASTE(multiply_, T)(c, x, y, lane)
#elif MMA <= MMA_SYNC
#define PTX_F16 "f16"
#define PTX_BF16 "bf16"
#define MULTIPLY(T, c, x, y, lane)                                                               \
  __asm__ volatile("mma.sync.aligned.m16n8k16.row.col.f32." PASTE(PTX_, T) "." PASTE(            \
                       PTX_, T) ".f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"     \
                   : "+f"((c)[0]), "+f"((c)[1]), "+f"((c)[2]), "+f"((c)[3])                      \
                   : "r"((x).items[0]), "r"((x).items[1]), "r"((x).items[2]), "r"((x).items[3]), \
                     "r"((y).items[0]), "r"((y).items[1]))
#elif MMA == MMA_TURING
#define MULTIPLY_HALF(c, low, high, column)                                             \
  __asm__ volatile(                                                                     \
      "mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5}, {%6}, " \
      "{%0,%1,%2,%3};"                                                                  \
      : "+f"((c)[0]), "+f"((c)[1]), "+f"((c)[2]), "+f"((c)[3])                          \
      : "r"(low), "r"(high), "r"(column))
#define MULTIPLY(T, c, x, y, lane)                              \
  {                                                             \
    MULTIPLY_HALF(c, (x).items[0], (x).items[1], (y).items[0]); \
    MULTIPLY_HALF(c, (x).items[2], (x).items[3], (y).items[1]); \
  }
#else
/* UNIT_F16 and UNIT_BF16 return c + a * b of vectors. */
#if MMA == MMA_WMMA_11
#define LOAD_WORDS(p) vload8(0, p)
#define LOAD_SUMS(p) vload8(0, p)
#define STORE_SUMS(v, p) vstore8(v, 0, p)
#define UNIT_F16(a, b, c) __builtin_amdgcn_wmma_f32_16x16x16_f16_w32(as_half16(a), as_half16(b), c)
#define UNIT_BF16(a, b, c) \
  __builtin_amdgcn_wmma_f32_16x16x16_bf16_w32(as_short16(a), as_short16(b), c)
#elif MMA == MMA_WMMA_12
#define LOAD_WORDS(p) vload4(0, p)
#define LOAD_SUMS(p) vload8(0, p)
#define STORE_SUMS(v, p) vstore8(v, 0, p)
#define UNIT_F16(a, b, c) \
  __builtin_amdgcn_wmma_f32_16x16x16_f16_w32_gfx12(as_half8(a), as_half8(b), c)
#define UNIT_BF16(a, b, c) \
  __builtin_amdgcn_wmma_f32_16x16x16_bf16_w32_gfx12(as_short8(a), as_short8(b), c)
#elif MMA == MMA_MFMA
#define LOAD_WORDS(p) vload2(0, p)
#define LOAD_SUMS(p) vload4(0, p)
#define STORE_SUMS(v, p) vstore4(v, 0, p)
#define UNIT_F16(a, b, c) \
  __builtin_amdgcn_mfma_f32_16x16x16f16(as_half4(a), as_half4(b), c, 0, 0, 0)
#define UNIT_BF16(a, b, c) \
  __builtin_amdgcn_mfma_f32_16x16x16bf16_1k(as_short4(a), as_short4(b), c, 0, 0, 0)
#else
#define LOAD_WORDS(p) vload8(0, p)
#define LOAD_SUMS(p) vload8(0, p)
#define STORE_SUMS(v, p) vstore8(v, 0, p)
#if MMA == MMA_DPAS_8
#define DPAS_ROWS(a) as_int8(a)
#else
#define DPAS_ROWS(a) as_short8(a)
#endif
#define UNIT_F16(a, b, c) intel_sub_group_f16_f16_matrix_mad_k16(DPAS_ROWS(a), as_int8(b), c)
#define UNIT_BF16(a, b, c) intel_sub_group_bf16_bf16_matrix_mad_k16(DPAS_ROWS(a), as_int8(b), c)
#endif
#define MULTIPLY(T, c, x, y, lane) \
  STORE_SUMS(PASTE(UNIT_, T)(LOAD_WORDS((x).items), LOAD_WORDS((y).items), LOAD_SUMS(c)), c)
#endif
#endif
