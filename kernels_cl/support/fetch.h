/* Loads operands of F32, F16 or BF16 in words of 16 bytes, for kernels on GPUs.
 *   KIND(T)     number of a type, a constant argument of the functions below
 *   VECTOR(T)   elements per word
 * An aligned word is read by one load. The alignment is tested on the address at run time;
 * neighbouring work-items take the same branch. */
#ifndef FETCH_H
#define FETCH_H
#include "common.h"

#define KIND(T) PASTE(number_, T)
#define HALVES(T) (IS_F32(T) ? 2 : 1) /* 16-bit words per element */
#define VECTOR(T) (IS_F32(T) ? 4 : 8)

/* Returns the word at p, of which n 16-bit words exist; the rest are 0. is_wide: 32-bit
 * elements. */
static inline uint4 fetch_word(const __global ushort *p, bool is_wide, index_t n) {
  if (n >= 8) {
    if (((size_t)p & 15) == 0) return *(const __global uint4 *)p;
    return is_wide ? vload4(0, (const __global uint *)p) : as_uint4(vload8(0, p));
  }
  ushort some[8];
  for (int i = 0; i < 8; i++) some[i] = i < n ? p[i] : (ushort)0;
  return as_uint4(vload8(0, some));
}

/* Converts the elements of a word to floats in to[0..VECTOR). */
static inline void expand_word(int kind, uint4 word, float *to) {
  if (kind == KIND(F32)) {
    vstore4(as_float4(word), 0, to);
  } else if (kind == KIND(BF16)) {
    const uint4 even = word << 16u, odd = word & 0xffff0000u;
    vstore8(as_float8((uint8)(even.x, odd.x, even.y, odd.y, even.z, odd.z, even.w, odd.w)), 0, to);
  } else {
    __attribute__((aligned(16))) uchar bytes[16]; /* uchar: may alias half */
    vstore16(as_uchar16(word), 0, bytes);
    vstore8(vload_half8(0, (const half *)bytes), 0, to);
  }
}

/* An operand of a product from a given position on: rows of a, or columns of b, by k. Steps are in
 * 16-bit words. order: 1, k is contiguous; 0, rows are. */
typedef struct operand {
  const __global ushort *p;
  index_t row_step, k_step, rows, depth; /* steps in 16-bit words; number of rows and k */
  int kind, halves, order;               /* compile-time constants */
} operand;
#define OPERAND(T, p, row_step, k_step, rows, depth, order)                                       \
  {                                                                                               \
    (const __global ushort *)(p), (row_step)*HALVES(T), (k_step)*HALVES(T), rows, depth, KIND(T), \
        HALVES(T), order                                                                          \
  }

/* Returns the word whose first element is at (row, k) and whose others follow along the contiguous
 * axis. Elements outside of the operand are 0. */
static inline uint4 fetch_at(const operand *o, index_t row, index_t k) {
  if (row >= o->rows || k >= o->depth) return (uint4)0;
  return fetch_word(o->p + row * o->row_step + k * o->k_step, o->halves == 2,
                    (o->order ? o->depth - k : o->rows - row) * o->halves);
}

/* Loads 8 elements from (row, k) on along the contiguous axis, as floats. */
static inline void fetch_floats(const operand *o, index_t row, index_t k, float *to) {
  const int vector = 8 / o->halves;
#pragma unroll
  for (int i = 0; i < 8; i += vector)
    expand_word(o->kind, fetch_at(o, o->order ? row : row + i, o->order ? k + i : k), to + i);
}
#endif
