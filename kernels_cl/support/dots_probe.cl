/* Tests that the driver's compiler accepts the function of add_dots.h and that the device computes
 * it correctly: sums of products of bytes of all magnitudes and signs.
 * backend/opencl/launch/instructions.c compares them with its own. */
#include "add_dots.h"
#include "common.h"

/* sums: 16 results, then `turns` words of q. */
__kernel void dots_probe(__global int *sums, const long sums_offset, const int turns) {
  if (get_global_id(0) != 0) return;
  sums += sums_offset;
  for (int lane = 0; lane < 16; lane++) {
    int sum = 0;
    for (int i = 0; i < turns; i++)
      sum = add_dot(sum, (uint)(i * 16 + lane) * 2654435761u ^ (i == 0 ? ~0u : 0u), sums[16 + i]);
    sums[lane] = sum;
  }
}
