/* Whether the driver's compiler takes the instructions of pairs.h, and the device does what they
 * say: sums of products of small integers, which are exact (backend/opencl/assembly.c has the
 * same). */
#include "common.h"
#include "pairs.h"

/* sums: 16, then `turns` words of two signed bytes. */
__kernel void pairs_probe(__global int *sums, const long sums_offset, const int turns) {
  if (get_global_id(0) != 0) return;
  sums += sums_offset;
#if PAIRS
  const uint16 lane = (uint16)(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
  float16 sum = 0;
  for (int i = 0; i < turns; i++) {
    const uint16 w = ((uint)i * 16u + lane) * 2654435761u ^ (i == 0 ? ~0u : 0u);
    const int q = sums[16 + i];
    const float16 low = convert_float16(w & 255u), high = convert_float16(w >> 8u & 255u);
    float factors[16];
    for (int k = 0; k < 8; k++) {
      factors[2 * k] = (float)(q << 24 >> 24);
      factors[2 * k + 1] = (float)(q << 16 >> 24);
    }
    const float8 pairs = as_float8(round_pairs(vload16(0, factors)));
    sum = ADD_PRODUCT(sum, join_rows(low, high), (float16)(pairs, pairs));
  }
  vstore16(convert_int16(sum), 0, sums);
#else
  (void)turns;
#endif
}
