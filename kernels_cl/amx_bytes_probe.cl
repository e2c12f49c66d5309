/* Whether the driver's compiler takes the instructions of amx_bytes.h, and the device does what
 * they say (backend/opencl/assembly.c has the same). */
#define A_SIGNED 1
#define B_SIGNED 0
#define B_SPACE __global
#define ASKED a
#include "amx_bytes.h"
#include "common.h"

/* sums: (BLOCK, BLOCK), which begin at 0; then a (BLOCK, 16 words), whose words are b's, too: (16
 * words, BLOCK). */
__kernel void amx_bytes_probe(__global int *sums, const long sums_offset) {
  if (get_global_id(0) != 0) return;
  sums += sums_offset;
  const __global uchar *a = (const __global uchar *)(sums + BLOCK * BLOCK);
  const tile_strides of_a = {STEP_BYTES, TILE_BYTES, 0}, of_b = {4 * BLOCK, STEP_BYTES, 0};
  const int start[SIDE] = {0};
  const sums_source from = {start, 0, 0};
  int made[BLOCK * BLOCK];
  amx_bytes_begin();
  add_blocks(1, a, of_a, a, of_b, from, made, BLOCK, 0);
  amx_bytes_end();
  for (int i = 0; i < BLOCK * BLOCK; i++) sums[i] = made[i];
}
