/* Planes convolved by themselves with small kernels, strip by strip. */
#include "backend/cpu/kernels/depthwise_kernels.h"

#include <string.h>

#include "backend/cpu/kernels/avx512.h"
#include "backend/cpu/kernels/vec4.h"

/* ---------------------------------------------------------------- any processor */

KERNEL_INLINE vec4 vec4_even(vec4 a, vec4 b) { return (vec4){a[0], a[2], b[0], b[2]}; }
KERNEL_INLINE vec4 vec4_odd(vec4 a, vec4 b) { return (vec4){a[1], a[3], b[1], b[3]}; }

#define TILE_TARGET
#define TILE(name) portable_##name
#define TILE_VECTOR vec4
#define TILE_ROWS 4
#define TILE_LOAD vec4_load
#define TILE_FILL(x) \
  (vec4) { (x), (x), (x), (x) }
#define TILE_ADD(a, b, sum) vec4_add_product(sum, a, b)
#define TILE_MAX vec4_larger
#define TILE_MIN vec4_smaller
#define TILE_EVEN vec4_even
#define TILE_ODD vec4_odd
#include "backend/cpu/kernels/depthwise_tiles.h"

#if KERNEL_X86
/* ---------------------------------------------------------------- AVX2 */

/* Every second of 16 floats; shuffle: which of four, twice. */
#define HALF_AVX2(a, b, shuffle) \
  _mm256_castpd_ps(_mm256_permute4x64_pd(_mm256_castps_pd(_mm256_shuffle_ps(a, b, shuffle)), 0xD8))

#define TILE_TARGET TARGET_AVX2
#define TILE(name) avx2_##name
#define TILE_VECTOR __m256
#define TILE_ROWS 4
#define TILE_LOAD _mm256_loadu_ps
#define TILE_FILL(x) _mm256_set1_ps(x)
#define TILE_ADD _mm256_fmadd_ps
#define TILE_MAX _mm256_max_ps
#define TILE_MIN _mm256_min_ps
#define TILE_EVEN(a, b) HALF_AVX2(a, b, 0x88)
#define TILE_ODD(a, b) HALF_AVX2(a, b, 0xDD)
#include "backend/cpu/kernels/depthwise_tiles.h"

/* ---------------------------------------------------------------- AVX-512 */

/* Every second of 32 floats from number `first` on. */
TARGET_AVX512 KERNEL_INLINE __m512 half_avx512(__m512 a, __m512 b, int first) {
  const __m512i even = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
  return _mm512_permutex2var_ps(a, _mm512_add_epi32(even, _mm512_set1_epi32(first)), b);
}

#define TILE_TARGET TARGET_AVX512
#define TILE(name) avx512_##name
#define TILE_VECTOR __m512
#define TILE_ROWS 4
#define TILE_LOAD _mm512_loadu_ps
#define TILE_FILL(x) _mm512_set1_ps(x)
#define TILE_ADD _mm512_fmadd_ps
#define TILE_MAX _mm512_max_ps
#define TILE_MIN _mm512_min_ps
#define TILE_EVEN(a, b) half_avx512(a, b, 0)
#define TILE_ODD(a, b) half_avx512(a, b, 1)
#include "backend/cpu/kernels/depthwise_tiles.h"
#endif

depthwise_kernel depthwise_kernel_for(int64_t side, int64_t stride, int64_t columns) {
  const int s = side == 5, t = stride == 2;
#if KERNEL_X86
  if (cpu_has_avx512() && columns > avx2_floats) return avx512_kernels[s][t];
  if (cpu_has_avx2()) return avx2_kernels[s][t];
#endif
  (void)columns;
  return portable_kernels[s][t];
}
