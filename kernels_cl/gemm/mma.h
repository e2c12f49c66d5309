/* Products of 16 x 8 blocks over 16 k, of F16 or BF16 with sums in f32, by the 32 work-items of a
 * warp. Words hold two k: the lower 16 bits are the even one. MMA:
 *   MMA_PTX    the instruction of NVIDIA's GPUs since compute capability 8.0
 *   MMA_LOCAL  the same sums through local memory, on any device: for tests
 *
 * Lane l of a warp, with g = l / 4 and t = l % 4, has:
 *   of a, 16 rows of 8 words    a[0], a[1]: word t of rows g and g + 8
 *                               a[2], a[3]: word t + 4 of the same
 *   of b, 8 columns of 8 words  b[0], b[1]: words t and t + 4 of column g
 *   of the sums                 c[0], c[1]: row g, columns 2 t and 2 t + 1
 *                               c[2], c[3]: row g + 8, the same */
#ifndef MMA_H
#define MMA_H
#include "common.h"
#define MMA_NONE 0
#define MMA_PTX 1
#define MMA_LOCAL 2
#ifndef MMA
#define MMA MMA_LOCAL
#endif
#define WARP 32
#if MMA == MMA_PTX
#define UNROLL_MMA _Pragma("unroll")
#else
#define UNROLL_MMA _Pragma("unroll 1") /* for loops with barriers */
#endif
#define SHARED_WORDS 6 /* words per lane in the memory of MMA_LOCAL */

/* Returns a word of two floats, rounded to nearest even. */
static inline uint pair_BF16(float even, float odd) {
  return float_to_bf16(even) | (uint)float_to_bf16(odd) << 16;
}
static inline uint pair_F16(float even, float odd) {
  __attribute__((aligned(4))) uchar h[4]; /* uchar: may alias half */
  vstore_half_rte(even, 0, (half *)h);
  vstore_half_rte(odd, 1, (half *)h);
  return h[0] | (uint)h[1] << 8 | (uint)h[2] << 16 | (uint)h[3] << 24;
}
static inline float2 unpair_BF16(uint word) {
  return (float2)(as_float(word << 16), as_float(word & 0xffff0000u));
}
static inline float2 unpair_F16(uint word) {
  __attribute__((aligned(4))) uchar h[4];
  for (int i = 0; i < 4; i++) h[i] = (uchar)(word >> 8 * i);
  return (float2)(vload_half(0, (const half *)h), vload_half(1, (const half *)h));
}
/* T: F16 or BF16. */
#define PAIR(T, even, odd) PASTE(pair_, T)(even, odd)
#define UNPAIR(T, word) PASTE(unpair_, T)(word)

#if MMA == MMA_PTX
#define PTX_F16 "f16"
#define PTX_BF16 "bf16"
#define MMA_MEMORY(name, warps)
#define MEMORY_OF_WARP(name, warp) ((__local uint *)0)
#define MULTIPLY(T, c, a, b, memory, lane)                                                   \
  __asm__ volatile("mma.sync.aligned.m16n8k16.row.col.f32." PASTE(PTX_, T) "." PASTE(        \
                       PTX_, T) ".f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};" \
                   : "+f"((c)[0]), "+f"((c)[1]), "+f"((c)[2]), "+f"((c)[3])                  \
                   : "r"((a)[0]), "r"((a)[1]), "r"((a)[2]), "r"((a)[3]), "r"((b)[0]), "r"((b)[1]))
#elif MMA == MMA_LOCAL
#define MMA_MEMORY(name, warps) __local uint name[(warps)*WARP * SHARED_WORDS]
#define MEMORY_OF_WARP(name, warp) ((name) + (warp)*WARP * SHARED_WORDS)
/* memory: the warp's own part. All warps of a group must call it together. */
#define DEFINE_MULTIPLY(T)                                                                 \
  static inline void PASTE(multiply_, T)(float *c, const uint *a, const uint *b,           \
                                         __local uint *memory, int lane) {                 \
    barrier(CLK_LOCAL_MEM_FENCE);                                                          \
    for (int i = 0; i < 4; i++) memory[lane * SHARED_WORDS + i] = a[i];                    \
    for (int i = 0; i < 2; i++) memory[lane * SHARED_WORDS + 4 + i] = b[i];                \
    barrier(CLK_LOCAL_MEM_FENCE);                                                          \
    for (int i = 0; i < 4; i++) {                                                          \
      const int row = lane / 4, column = lane % 4 * 2 + i % 2;                             \
      for (int word = 0; word < 8; word++) {                                               \
        const uint x = memory[(row * 4 + word % 4) * SHARED_WORDS + i / 2 + word / 4 * 2], \
                   y = memory[(column * 4 + word % 4) * SHARED_WORDS + 4 + word / 4];      \
        const float2 p = UNPAIR(T, x), q = UNPAIR(T, y);                                   \
        c[i] = fma(p.y, q.y, fma(p.x, q.x, c[i]));                                         \
      }                                                                                    \
    }                                                                                      \
  }
DEFINE_MULTIPLY(F16)
DEFINE_MULTIPLY(BF16)
#define MULTIPLY(T, c, a, b, memory, lane) PASTE(multiply_, T)(c, a, b, memory, lane)
#endif
#endif
