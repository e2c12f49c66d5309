/* Tests that the driver's compiler accepts the arithmetic of halves.h and that the device computes
 * it: sums of products of small integers, whose last bits are rounded.
 * backend/opencl/launch/instructions.c compares them with its own. */
#include "halves.h"
#define PROBE_TEXEL(i)                                                    \
  HALVES_OF((uint4)((uint)sums[8 + 4 * (i)], (uint)sums[8 + 4 * (i) + 1], \
                    (uint)sums[8 + 4 * (i) + 2], (uint)sums[8 + 4 * (i) + 3]))

/* sums: 8 results, then HALVES_CHAIN texels and one or more with a factor for each of these. */
__kernel void halves_probe(__global int *sums, const long sums_offset) {
#if HALVES_BY
  if (get_global_id(0) != 0) return;
  sums += sums_offset;
  halves sum = (halves)0;
  for (int i = 0; i < HALVES_CHAIN; i += 8) {
    const halves x = PROBE_TEXEL(HALVES_CHAIN + i / 8);
    sum = ADD_PRODUCT(PROBE_TEXEL(i), x.s0, sum);
    sum = ADD_PRODUCT(PROBE_TEXEL(i + 1), x.s1, sum);
    sum = ADD_PRODUCT(PROBE_TEXEL(i + 2), x.s2, sum);
    sum = ADD_PRODUCT(PROBE_TEXEL(i + 3), x.s3, sum);
    sum = ADD_PRODUCT(PROBE_TEXEL(i + 4), x.s4, sum);
    sum = ADD_PRODUCT(PROBE_TEXEL(i + 5), x.s5, sum);
    sum = ADD_PRODUCT(PROBE_TEXEL(i + 6), x.s6, sum);
    sum = ADD_PRODUCT(PROBE_TEXEL(i + 7), x.s7, sum);
  }
  float lanes[8];
  vstore8(FLOATS_OF(sum), 0, lanes);
  for (int i = 0; i < 8; i++) sums[i] = (int)lanes[i];
#endif
}
