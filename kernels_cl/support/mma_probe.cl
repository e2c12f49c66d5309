/* Tests that the driver's compiler accepts the instruction of mma.h and that the device computes it
 * correctly: a product of 16 x 16 over 16 k of small integers, which is exact. It copies the
 * integers to local memory, asynchronously if the unit has such copies.
 * backend/opencl/launch/instructions.c compares the product with its own. */
#include "mma_tiles.h"
#define MMA_HAS_BF16 (MMA != MMA_TURING)

enum { SIDE = 16, PITCH = 12, INPUT = (1 + MMA_HAS_BF16) * SIDE * SIDE };

/* A word of two small signed integers, taken from the two lowest bytes of `bytes`. */
#define WORD_OF(T, bytes) \
  PASTE(pair_, T)((float)((bytes) << 28 >> 28), (float)((bytes) << 20 >> 28))
#define STAGE(T)                                             \
  for (int i = lane; i < SIDE * MMA_WORDS; i += MMA_LANES) { \
    const int at = i / MMA_WORDS * PITCH + i % MMA_WORDS;    \
    rows[at] = WORD_OF(T, input[i]);                         \
    columns[at] = WORD_OF(T, input[SIDE * MMA_WORDS + i]);   \
  }
/* Multiplies in type T and stores at `at`. The sum of row m and column n starts at m + 3 n. */
#define PROBE(T, at)                                                                              \
  barrier(CLK_LOCAL_MEM_FENCE);                                                                   \
  STAGE(T)                                                                                        \
  barrier(CLK_LOCAL_MEM_FENCE);                                                                   \
  for (int m = 0; m < SIDE; m += MMA_M)                                                           \
    for (int n = 0; n < SIDE; n += MMA_N) {                                                       \
      float c[SUMS];                                                                              \
      const a_fragment x = load_a(rows + m * PITCH, PITCH, lane);                                 \
      const b_fragment y = load_b(columns + n * PITCH, PITCH, lane);                              \
      for (int i = 0; i < SUMS; i++) c[i] = m + SUM_ROW(lane, i) + 3 * (n + SUM_COLUMN(lane, i)); \
      MULTIPLY(T, c, x, y, lane);                                                                 \
      for (int i = 0; i < SUMS; i++)                                                              \
        sums[(at) + (m + SUM_ROW(lane, i)) * SIDE + n + SUM_COLUMN(lane, i)] = (int)c[i];         \
    }

/* sums: (2, 16, 16) results of F16 and BF16, or (16, 16) without BF16, then the rows of a (16, 8)
 * and the columns of b (16, 8) in words, of which bits 0 to 3 and 8 to 11 are two integers. A group
 * has MMA_LANES work-items.
 */
__kernel void mma_probe(__global int *sums, const long sums_offset) {
  __local __attribute__((aligned(16))) uint rows[SIDE * PITCH], columns[SIDE * PITCH];
  const int lane = (int)get_local_id(0);
  __local __attribute__((aligned(16))) int input[2 * SIDE * MMA_WORDS];
  sums += sums_offset;
#if MMA == MMA_LDMATRIX
  copies pending = {0};
  for (int i = lane * 4; i < 2 * SIDE * MMA_WORDS; i += MMA_LANES * 4)
    copies_add(&pending, (const __global ushort *)(sums + INPUT + i), (__local uint4 *)(input + i));
  copies_commit(&pending);
  copies_wait(&pending, 0);
#else
  for (int i = lane; i < 2 * SIDE * MMA_WORDS; i += MMA_LANES) input[i] = sums[INPUT + i];
#endif
  PROBE(F16, 0)
#if MMA_HAS_BF16
  PROBE(BF16, SIDE * SIDE)
#endif
}
