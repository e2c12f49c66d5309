/* Whether the driver's compiler takes the instructions of amx.h, and the device does what they say:
 * sums of products of small integers, which are exact (backend/opencl/assembly.c has the same). */
#include "common.h"
#include "gemm_tile.h"
#define WORDS 20 /* of a row: a whole tile and a part of one */
#define SUMS (2 * AMX_SIDE * 2 * AMX_SIDE)
#define PANEL (2 * AMX_SIDE * AMX_SIDE)

/* sums: of 32 rows by 32 columns, then two panels of two tiles of a. */
__kernel void amx_probe(__global int *sums, const long sums_offset) {
#if AMX
  __local float b[WORDS * 2 * AMX_SIDE];
  float made[SUMS];
  sums += sums_offset;
  for (int i = 0; i < WORDS; i++)
    for (int j = 0; j < 2 * AMX_SIDE; j++) {
      const uint at = (uint)(4096 + j * 64 + 2 * i);
      const int even = (int)(at * 2654435761u) >> 28, odd = (int)((at + 1) * 2654435761u) >> 28;
      b[i * 2 * AMX_SIDE + j] = as_float(float_to_bf16(even) | (uint)float_to_bf16(odd) << 16);
    }
  const tiles t = {.a = (const __global float *)(sums + SUMS),
                   .a_panel = PANEL,
                   .panels = 2,
                   .b_row = 2 * AMX_SIDE,
                   .b = b};
  amx_begin();
  multiply_tiles(&t, WORDS, made, 2 * AMX_SIDE, true);
  amx_end();
  for (int i = 0; i < SUMS; i++) sums[i] = (int)made[i];
#endif
}
