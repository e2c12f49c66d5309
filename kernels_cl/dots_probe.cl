/* Whether the driver's compiler takes the instruction of dots.h, and the device does what it says:
 * sums of products of all kinds of bytes (backend/opencl/assembly.c has the same). */
#include "dots.h"

/* sums: 16, then `turns` words of q. */
__kernel void dots_probe(__global int *sums, const long sums_offset, const int turns) {
  if (get_global_id(0) != 0) return;
  sums += sums_offset;
#if DOTS == DOTS_PACKED
  for (int lane = 0; lane < 16; lane++) {
    int sum = 0;
    for (int i = 0; i < turns; i++)
      sum = add_dot(sum, (uint)(i * 16 + lane) * 2654435761u ^ (i == 0 ? ~0u : 0u), sums[16 + i]);
    sums[lane] = sum;
  }
#elif DOTS != DOTS_PORTABLE
  const uint16 lane = (uint16)(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
  int16 sum = 0;
  for (int i = 0; i < turns; i++)
    sum = add_dots(sum, ((uint)i * 16u + lane) * 2654435761u ^ (i == 0 ? ~0u : 0u), sums[16 + i]);
  vstore16(sum, 0, sums);
#else
  (void)turns;
#endif
}
