/* Tests that the driver's compiler accepts the instruction of mma.h and that the device computes it
 * correctly: sums of products of small integers, which are exact.
 * backend/opencl/launch/instructions.c compares them with its own. */
#include "mma.h"

/* A pair of small signed integers from the two lowest bytes of a word. */
#define WORD_OF(T, bytes) PAIR(T, (float)((bytes) << 28 >> 28), (float)((bytes) << 20 >> 28))
#define PROBE(T, at)                                                            \
  {                                                                             \
    uint x[4], y[2];                                                            \
    float c[4] = {1, 2, 3, 4};                                                  \
    for (int i = 0; i < 4; i++) x[i] = WORD_OF(T, sums[IN + lane * 6 + i]);     \
    for (int i = 0; i < 2; i++) y[i] = WORD_OF(T, sums[IN + lane * 6 + 4 + i]); \
    MULTIPLY(T, c, x, y, memory, lane);                                         \
    for (int i = 0; i < 4; i++) sums[(at) + lane * 4 + i] = (int)c[i];          \
  }
#define IN (WARP * 8)

/* sums: 128 results for F16 and 128 for BF16, then 6 input words per lane, of which bits 0 to 3 and
 * 8 to 11 are two integers. A group is one warp. */
__kernel void mma_probe(__global int *sums, const long sums_offset) {
  MMA_MEMORY(memory, 1);
  const int lane = (int)get_local_id(0);
  sums += sums_offset;
  PROBE(F16, 0)
  PROBE(BF16, WARP * 4)
}
