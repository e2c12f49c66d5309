/* Rounds the vectors along k of an operand of a product to halves, each multiplied by a power of
 * two. The largest finite magnitude of a vector becomes a number in [2^SIZE, 2^(SIZE + 1)), so that
 * short sums of products neither overflow nor lose bits of all but their smallest terms. TEAM
 * work-items share a vector. */
#include "common.h"
#include "vector.h"
#ifndef X_TYPE
#define X_TYPE F32
#endif
#ifndef SIZE
#define SIZE 5
#endif

/* Vector v, element k of batch z is at z * packed_z + v / 8 * packed_block + v % 8 * packed_lane +
 * packed_first + k * packed_k, for k < depth. The short without packed_first and k is its exponent:
 * the vector is 2^exponent times the halves. Vectors and elements beyond those of x are 0. Global
 * ids: work-items of the vectors, batches. */
__kernel void gemm_halves_pack(__global const STORAGE(X_TYPE) * x, const long x_offset,
                               const index8 x_batch, const index8 batch_dims, const index_t x_v,
                               const index_t x_k, const index_t vectors, const index_t k_size,
                               __global half *packed, const long packed_offset, const long packed_z,
                               const index_t packed_block, const index_t packed_lane,
                               const index_t packed_first, const index_t packed_k,
                               const index_t padded, const index_t depth) {
  TEAM_MEMORY(memory);
  const index_t v = (index_t)TEAM_INDEX, z = (index_t)get_global_id(1);
  if (TEAM == 1 && v >= padded) return;
  const index_t n = v < vectors ? k_size : 0;
  x += x_offset + strided_offset(z, batch_dims, x_batch) + v * x_v;
  packed += packed_offset + z * packed_z + v / 8 * packed_block + v % 8 * packed_lane;
  float most = 0;
  for (index_t k = LANE; k < n; k += TEAM) {
    const float size = fabs(LOADF(X_TYPE, x, k * x_k));
    most = is_finite(size) ? max(most, size) : most;
  }
  most = max_team(most, memory);
  const int exponent = max((int)(as_uint(most) >> 23), SIZE + 2) - 127 - SIZE;
  const float scale = as_float((uint)(127 - exponent) << 23);
  if (LANE == 0) *(__global short *)packed = (short)exponent;
  for (index_t k = LANE; k < depth; k += TEAM)
    vstore_half_rte(k < n ? scale * LOADF(X_TYPE, x, k * x_k) : 0.0f, packed_first + k * packed_k,
                    packed);
}
