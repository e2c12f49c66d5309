/* Transposes tiles of an operand of an elementwise kernel whose contiguous axis is the second
 * dimension. A tile has TURNED elements along the innermost dimension and 16 along the second. */
#ifndef TURNED_H
#define TURNED_H
#include "transpose.h"
#define TURNED 64

/* Transposes `count` rows of x, `stride` apart, each of `lines` neighbours, to (16, TURNED). */
static inline void turn_tile(const __global float *x, index_t stride, int count, int lines,
                             float *to) {
  for (int c = 0; c < count; c += 16) {
    const __global float *from = x + c * stride;
    if (lines == 16 && count - c >= 16) {
      float16 r[16];
#pragma unroll
      for (int i = 0; i < 16; i++) r[i] = vload16(0, from + i * stride);
      transpose_16(r);
#pragma unroll
      for (int i = 0; i < 16; i++) vstore16(r[i], 0, to + i * TURNED + c);
    } else {
      for (int i = 0; i < min(16, count - c); i++)
        for (int l = 0; l < lines; l++) to[l * TURNED + c + i] = from[i * stride + l];
    }
  }
}
#endif
