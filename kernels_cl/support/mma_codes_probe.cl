/* Tests that the driver's compiler accepts the instruction of mma_codes.h and that the device
 * computes it correctly: a product of 16 x 16 over 32 k of bytes of all magnitudes and signs.
 * backend/opencl/launch/instructions.c compares it with its own. */
#include "mma_codes.h"

enum { SIDE = 16, PITCH = 12 };

/* sums: (16, 16) results, then the rows of a (16, 8) and the columns of b (16, 8), in words of four
 * bytes. The sum of row m and column n starts at m + 3 n. A group has MMA_LANES work-items. */
__kernel void mma_codes_probe(__global int *sums, const long sums_offset) {
  __local __attribute__((aligned(16))) uint rows[SIDE * PITCH], columns[SIDE * PITCH];
  const int lane = (int)get_local_id(0);
  sums += sums_offset;
  const __global int *words = sums + SIDE * SIDE;
  for (int i = lane; i < SIDE * MMA_WORDS; i += MMA_LANES) {
    const int at = i / MMA_WORDS * PITCH + i % MMA_WORDS;
    rows[at] = as_uint(words[i]);
    columns[at] = as_uint(words[SIDE * MMA_WORDS + i]) ^ (FLIP_CODES ? 0x80808080u : 0);
  }
  barrier(CLK_LOCAL_MEM_FENCE);
  for (int m = 0; m < SIDE; m += MMA_M)
    for (int n = 0; n < SIDE; n += MMA_N) {
      int c[SUMS];
      const a_fragment x = load_a(rows + m * PITCH, PITCH, lane);
      const b_fragment y = load_codes(columns + n * PITCH, PITCH, 0, 1, lane);
      for (int i = 0; i < SUMS; i++) {
        c[i] = m + SUM_ROW(lane, i) + 3 * (n + SUM_COLUMN(lane, i));
        for (int k = 0; FLIP_CODES && k < MMA_WORDS; k++)
          c[i] +=
              128 * DOT_OF_BYTES(uchar, 0x01010101u, words[(m + SUM_ROW(lane, i)) * MMA_WORDS + k]);
      }
      MULTIPLY_CODES(c, x, y, 0, 1, lane);
      for (int i = 0; i < SUMS; i++)
        sums[(m + SUM_ROW(lane, i)) * SIDE + n + SUM_COLUMN(lane, i)] = c[i];
    }
}
