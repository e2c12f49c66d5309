/* Whether the driver's compiler takes the instruction of pairs.h, and the device does what it says:
 * sums of products of small integers, which are exact (backend/opencl/assembly.c has the same). */
#include "common.h"
#include "pairs.h"

/* The lowest two bytes of each as BF16. */
static inline float16 pairs_of(int16 low, int16 high) {
  return as_float16(as_uint16(convert_float16(low)) >> 16u |
                    (as_uint16(convert_float16(high)) & 0xffff0000u));
}

/* sums: 16, then `turns` words of two signed bytes. */
__kernel void pairs_probe(__global int *sums, const long sums_offset, const int turns) {
  if (get_global_id(0) != 0) return;
  sums += sums_offset;
#if PAIRS
  const uint16 lane = (uint16)(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
  float16 sum = 0;
  for (int i = 0; i < turns; i++) {
    const int16 w = as_int16(((uint)i * 16u + lane) * 2654435761u ^ (i == 0 ? ~0u : 0u));
    const int16 q = sums[16 + i];
    sum = ADD_PRODUCT(sum, pairs_of(w & 255, w >> 8 & 255), pairs_of(q << 24 >> 24, q << 16 >> 24));
  }
  vstore16(convert_int16(sum), 0, sums);
#else
  (void)turns;
#endif
}
