/* Operands of F32, F16 or BF16 in words of 16 bytes, as kernels for GPUs read them.
 *   KIND(T)     of a type, a constant that the functions below take
 *   VECTOR(T)   its elements in a word
 * A word is read by one load where it is aligned, which is asked of its address: for neighbours it
 * is the same. */
#ifndef FETCH_H
#define FETCH_H
#include "common.h"

#define KIND(T) PASTE(number_, T)
#define HALVES(T) (IS_F32(T) ? 2 : 1) /* 16-bit words of an element */
#define VECTOR(T) (IS_F32(T) ? 4 : 8)

/* The word at p, of which n 16-bit words are there, the rest 0. is_wide: of elements of 32 bits. */
static inline uint4 fetch_word(const __global ushort *p, bool is_wide, index_t n) {
  if (n >= 8) {
    if (((size_t)p & 15) == 0) return *(const __global uint4 *)p;
    return is_wide ? vload4(0, (const __global uint *)p) : as_uint4(vload8(0, p));
  }
  ushort some[8];
  for (int i = 0; i < 8; i++) some[i] = i < n ? p[i] : (ushort)0;
  return as_uint4(vload8(0, some));
}

/* The elements of a word, to[0..VECTOR). */
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

/* An operand of a product from a place on: rows of a, or columns of b, by k. Steps are in 16-bit
 * words. order: 1, k is contiguous; 0, rows are. */
typedef struct operand {
  const __global ushort *p;
  index_t row_step, k_step, rows, depth; /* and how many are there */
  int kind, halves, order;               /* constants */
} operand;
#define OPERAND(T, p, row_step, k_step, rows, depth, order)                                       \
  {                                                                                               \
    (const __global ushort *)(p), (row_step)*HALVES(T), (k_step)*HALVES(T), rows, depth, KIND(T), \
        HALVES(T), order                                                                          \
  }

/* The word whose first element is at (row, k): its neighbours are along the contiguous axis. What
 * is not there is 0. */
static inline uint4 fetch_at(const operand *o, index_t row, index_t k) {
  if (row >= o->rows || k >= o->depth) return (uint4)0;
  return fetch_word(o->p + row * o->row_step + k * o->k_step, o->halves == 2,
                    (o->order ? o->depth - k : o->rows - row) * o->halves);
}

/* The 8 elements from (row, k) on along the contiguous axis, as floats. */
static inline void fetch_floats(const operand *o, index_t row, index_t k, float *to) {
  const int vector = 8 / o->halves;
#pragma unroll
  for (int i = 0; i < 8; i += vector)
    expand_word(o->kind, fetch_at(o, o->order ? row : row + i, o->order ? k + i : k), to + i);
}
#endif
