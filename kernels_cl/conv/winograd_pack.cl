/* Packs the constant weight of winograd.cl: its factors as [panel of COLUMNS outputs][N *
 * N][channels][COLUMNS]. The panels of a group follow the panels of the group before it. Outputs
 * beyond the last of a group are 0. A work-item writes a channel of a panel. */
#include "common.h"
#ifndef COLUMNS
#define COLUMNS 32
#endif
#include "winograd.h"

/* Transforms three elements: the value of their polynomial at each point, divided by the product of
 * the point's differences from the others. The last factor, at infinity, is the last element. */
static inline void factors_of_3(const float k[SIDE], float f[N]) {
#if TILE == 2
  f[0] = k[0];
  f[1] = (k[0] + k[2] + k[1]) * 0.5f;
  f[2] = (k[0] + k[2] - k[1]) * 0.5f;
  f[3] = k[2];
#else
  const float of_a = 1 / (2 * POINT_A2 * (POINT_A2 - POINT_B2)),
              of_b = 1 / (2 * POINT_B2 * (POINT_B2 - POINT_A2));
  const float even_a = FMA(POINT_A2, k[2], k[0]), even_b = FMA(POINT_B2, k[2], k[0]);
  f[0] = k[0] * (1 / (POINT_A2 * POINT_B2));
  f[1] = FMA(POINT_A, k[1], even_a) * of_a;
  f[2] = FMA(-POINT_A, k[1], even_a) * of_a;
  f[3] = FMA(POINT_B, k[1], even_b) * of_b;
  f[4] = FMA(-POINT_B, k[1], even_b) * of_b;
  f[5] = k[2];
#endif
}

__kernel void winograd_pack(const __global float *weight, const long weight_offset,
                            __global float *packed, const long packed_offset, const index_t items,
                            const int channels, const int outputs) {
  const index_t item = (index_t)get_global_id(0);
  if (item >= items) return;
  const int channel = (int)(item % channels), panels = (outputs + COLUMNS - 1) / COLUMNS;
  const index_t panel = item / channels, first = panel % panels * COLUMNS;
  weight += weight_offset;
  packed += packed_offset + ((long)panel * FACTORS * channels + channel) * COLUMNS;
  for (int j = 0; j < COLUMNS; j++) {
    float rows[N][SIDE], made[N];
    const long kernel_of = (panel / panels * outputs + first + j) * (long)channels + channel;
    for (int y = 0; y < SIDE; y++) {
      float k[SIDE];
      for (int x = 0; x < SIDE; x++)
        k[x] = first + j < outputs ? weight[(kernel_of * SIDE + y) * SIDE + x] : 0;
      factors_of_3(k, made);
      for (int x = 0; x < N; x++) rows[x][y] = made[x];
    }
    for (int x = 0; x < N; x++) {
      factors_of_3(rows[x], made);
      for (int y = 0; y < N; y++) packed[(long)(y * N + x) * channels * COLUMNS + j] = made[y];
    }
  }
}
