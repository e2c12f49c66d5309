/* Loads operands of F32, F16 or BF16 in texels of 16 bytes, for kernels on GPUs.
 *   KIND(T)     number of a type, a constant argument of the functions below
 *   VECTOR(T)   elements per texel
 * An aligned texel is read by one load. The alignment is tested on the address at run time;
 * neighbouring work-items take the same branch. */
#ifndef FETCH_H
#define FETCH_H
#include "common.h"

#define KIND(T) PASTE(number_, T)
#define HALVES(T) (IS_F32(T) ? 2 : 1) /* 16-bit words per element */
#define VECTOR(T) (IS_F32(T) ? 4 : 8)

/* A 32-bit word of the 16-bit words i and i + 1 at p. Only n words exist; others are 0. */
#define TWO_WORDS(p, n, i) ((i) < (n) ? (p)[i] | ((i) + 1 < (n) ? (uint)(p)[(i) + 1] << 16 : 0) : 0)

/* Returns the texel at p. Only its first n 16-bit words exist; the others are 0. is_wide: elements
 * have 32 bits. */
static inline uint4 fetch_texel(const __global ushort *p, bool is_wide, index_t n) {
  if (n >= 8) {
    if (((size_t)p & 15) == 0) return *(const __global uint4 *)p;
    return is_wide ? vload4(0, (const __global uint *)p) : as_uint4(vload8(0, p));
  }
  return (uint4)(TWO_WORDS(p, n, 0), TWO_WORDS(p, n, 2), TWO_WORDS(p, n, 4), TWO_WORDS(p, n, 6));
}

/* Returns the elements of a texel as floats. The last four are 0 if elements have 32 bits. */
static inline float8 texel_floats(int kind, uint4 texel) {
  if (kind == KIND(F32)) return (float8)(as_float4(texel), (float4)(0));
  if (kind == KIND(BF16)) {
    const uint4 even = texel << 16u, odd = texel & 0xffff0000u;
    return as_float8((uint8)(even.x, odd.x, even.y, odd.y, even.z, odd.z, even.w, odd.w));
  }
#if HAS_HALF
  const half8 h = as_half8(texel);
  return (float8)(h.s0, h.s1, h.s2, h.s3, h.s4, h.s5, h.s6, h.s7);
#else
  __attribute__((aligned(16))) uchar bytes[16]; /* uchar: may alias half */
  vstore16(as_uchar16(texel), 0, bytes);
  return vload_half8(0, (const half *)bytes);
#endif
}

/* Converts the elements of a texel to floats in to[0..VECTOR). */
static inline void expand_texel(int kind, uint4 texel, float *to) {
  if (kind == KIND(F32))
    vstore4(as_float4(texel), 0, to);
  else
    vstore8(texel_floats(kind, texel), 0, to);
}

/* An operand of a product, from a given position on: rows of a, or columns of b, by k. Strides are
 * in 16-bit words. order: 1, k is contiguous; 0, rows are. */
typedef struct operand {
  const __global ushort *p;
  index_t row_stride, k_stride, rows, depth; /* strides in 16-bit words; number of rows and k */
  int kind, halves, order;                   /* compile-time constants */
} operand;
#define OPERAND(T, p, row_stride, k_stride, rows, depth, order)                              \
  {                                                                                          \
    (const __global ushort *)(p), (row_stride)*HALVES(T), (k_stride)*HALVES(T), rows, depth, \
        KIND(T), HALVES(T), order                                                            \
  }

/* Returns the texel whose first element is at (row, k) and whose others follow along the contiguous
 * axis. Elements outside of the operand are 0. */
static inline uint4 fetch_at(const operand *o, index_t row, index_t k) {
  if (row >= o->rows || k >= o->depth) return (uint4)0;
  return fetch_texel(o->p + row * o->row_stride + k * o->k_stride, o->halves == 2,
                     (o->order ? o->depth - k : o->rows - row) * o->halves);
}

/* Loads 8 elements from (row, k) on along the contiguous axis, as floats. */
static inline void fetch_floats(const operand *o, index_t row, index_t k, float *to) {
#pragma unroll
  for (int i = 0; i < 8; i += 4)
    if (i == 0 || o->halves == 2)
      expand_texel(o->kind, fetch_at(o, o->order ? row : row + i, o->order ? k + i : k), to + i);
}
#endif
