/* Four neighbouring elements at once. Four floats are 16 bytes: the widest load of a GPU, and the
 * register width of GPUs that have vectors.
 *
 *   real4               four reals
 *   LOAD_QUAD(T, p, n)  the first n of four neighbours at __global p, the rest 0; any integer n */
#ifndef QUADS_H
#define QUADS_H
#include "common.h"

typedef PASTE(PASTE(real_, COMPUTE), 4) real4;
#define quad_F32(p) vload4(0, p)
#define quad_F16(p) vload_half4(0, p)
#define quad_BF16(p) load4_BF16(p)
#define quad_F64(p) vload4(0, p)
#define quad_I8(p) PASTE(PASTE(convert_, PASTE(real_, COMPUTE)), 4)(vload4(0, p))
#define LOAD_SOME_OF_QUAD(T, p, n)                                              \
  (real4)((n) > 0 ? LOAD(T, p, 0) : (real)0, (n) > 1 ? LOAD(T, p, 1) : (real)0, \
          (n) > 2 ? LOAD(T, p, 2) : (real)0, (real)0)
#define LOAD_QUAD(T, p, n) ((n) >= 4 ? PASTE(quad_, T)(p) : LOAD_SOME_OF_QUAD(T, p, n))
#endif
