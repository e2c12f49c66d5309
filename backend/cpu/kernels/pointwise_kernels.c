/* Tiles of convolutions with a kernel of one element. */
#include "backend/cpu/kernels/pointwise_kernels.h"
#include "backend/cpu/kernels/avx512.h"
#include "backend/cpu/kernels/vec4.h"

/* ---------------------------------------------------------------- any processor */

#define PORTABLE_ROWS 4
#define PORTABLE_FILL(x) \
  (vec4) { (x), (x), (x), (x) }

#define TILE_TARGET
#define TILE_ONE tile_portable
#define TILE_RUN run_portable
#define TILE_ROWS PORTABLE_ROWS
#define TILE_VECTOR vec4
#define TILE_VECTORS 2
#define TILE_LOAD vec4_load
#define TILE_FILL PORTABLE_FILL
#define TILE_ADD(a, b, sum) vec4_add_product(sum, a, b)
#define TILE_MAX vec4_larger
#define TILE_MIN vec4_smaller
#include "backend/cpu/kernels/pointwise_tiles.h"

#define TILE_TARGET
#define TILE_ONE half_tile_portable
#define TILE_RUN run_half_portable
#define TILE_ROWS PORTABLE_ROWS
#define TILE_VECTOR vec4
#define TILE_VECTORS 1
#define TILE_LOAD vec4_load
#define TILE_FILL PORTABLE_FILL
#define TILE_ADD(a, b, sum) vec4_add_product(sum, a, b)
#define TILE_MAX vec4_larger
#define TILE_MIN vec4_smaller
#include "backend/cpu/kernels/pointwise_tiles.h"

#define TILE_TARGET
#define TILE_ONE pairs_tile_portable
#define TILE_RUN run_pairs_portable
#define TILE_ROWS PORTABLE_ROWS
#define TILE_VECTOR vec4
#define TILE_VECTORS 2
#define TILE_LOAD vec4_load
#define TILE_FILL PORTABLE_FILL
#define TILE_ADD(a, b, sum) vec4_add_pairs(sum, a, b)
#define TILE_MAX vec4_larger
#define TILE_MIN vec4_smaller
#include "backend/cpu/kernels/pointwise_tiles.h"

#define TILE_TARGET
#define TILE_ONE half_pairs_tile_portable
#define TILE_RUN run_half_pairs_portable
#define TILE_ROWS PORTABLE_ROWS
#define TILE_VECTOR vec4
#define TILE_VECTORS 1
#define TILE_LOAD vec4_load
#define TILE_FILL PORTABLE_FILL
#define TILE_ADD(a, b, sum) vec4_add_pairs(sum, a, b)
#define TILE_MAX vec4_larger
#define TILE_MIN vec4_smaller
#include "backend/cpu/kernels/pointwise_tiles.h"

#if KERNEL_ARM
#define TILE_TARGET TARGET_ARM_BF16
#define TILE_ONE pairs_tile_arm
#define TILE_RUN run_pairs_arm
#define TILE_ROWS 12
#define TILE_VECTOR vec4
#define TILE_VECTORS 2
#define TILE_LOAD vec4_load
#define TILE_FILL PORTABLE_FILL
#define TILE_ADD(a, b, sum) vec4_add_bfdot(sum, a, b)
#define TILE_MAX vec4_larger
#define TILE_MIN vec4_smaller
#include "backend/cpu/kernels/pointwise_tiles.h"

#define TILE_TARGET TARGET_ARM_BF16
#define TILE_ONE half_pairs_tile_arm
#define TILE_RUN run_half_pairs_arm
#define TILE_ROWS 12
#define TILE_VECTOR vec4
#define TILE_VECTORS 1
#define TILE_LOAD vec4_load
#define TILE_FILL PORTABLE_FILL
#define TILE_ADD(a, b, sum) vec4_add_bfdot(sum, a, b)
#define TILE_MAX vec4_larger
#define TILE_MIN vec4_smaller
#include "backend/cpu/kernels/pointwise_tiles.h"
#endif

#if KERNEL_X86
/* ---------------------------------------------------------------- AVX2 */

#define TILE_TARGET TARGET_AVX2
#define TILE_ONE tile_avx2
#define TILE_RUN run_avx2
#define TILE_ROWS 6
#define TILE_VECTOR __m256
#define TILE_VECTORS 2
#define TILE_LOAD _mm256_loadu_ps
#define TILE_FILL _mm256_set1_ps
#define TILE_ADD _mm256_fmadd_ps
#define TILE_MAX _mm256_max_ps
#define TILE_MIN _mm256_min_ps
#include "backend/cpu/kernels/pointwise_tiles.h"

#define TILE_TARGET TARGET_AVX2
#define TILE_ONE half_tile_avx2
#define TILE_RUN run_half_avx2
#define TILE_ROWS 6
#define TILE_VECTOR __m256
#define TILE_VECTORS 1
#define TILE_LOAD _mm256_loadu_ps
#define TILE_FILL _mm256_set1_ps
#define TILE_ADD _mm256_fmadd_ps
#define TILE_MAX _mm256_max_ps
#define TILE_MIN _mm256_min_ps
#include "backend/cpu/kernels/pointwise_tiles.h"

/* ---------------------------------------------------------------- AVX-512 */

#define TILE_TARGET TARGET_AVX512
#define TILE_ONE tile_avx512
#define TILE_RUN run_avx512
#define TILE_ROWS 12
#define TILE_VECTOR __m512
#define TILE_VECTORS 2
#define TILE_LOAD _mm512_loadu_ps
#define TILE_FILL _mm512_set1_ps
#define TILE_ADD _mm512_fmadd_ps
#define TILE_MAX _mm512_max_ps
#define TILE_MIN _mm512_min_ps
#include "backend/cpu/kernels/pointwise_tiles.h"

#define TILE_TARGET TARGET_AVX512
#define TILE_ONE half_tile_avx512
#define TILE_RUN run_half_avx512
#define TILE_ROWS 12
#define TILE_VECTOR __m512
#define TILE_VECTORS 1
#define TILE_LOAD _mm512_loadu_ps
#define TILE_FILL _mm512_set1_ps
#define TILE_ADD _mm512_fmadd_ps
#define TILE_MAX _mm512_max_ps
#define TILE_MIN _mm512_min_ps
#include "backend/cpu/kernels/pointwise_tiles.h"

/* ---------------------------------------------------------------- AVX-512 BF16 */

#define ADD_PAIRS(a, b, sum) _mm512_dpbf16_ps(sum, (__m512bh)(a), (__m512bh)(b))

#define TILE_TARGET TARGET_AVX512_BF16
#define TILE_ONE pairs_tile
#define TILE_RUN run_pairs
#define TILE_ROWS 12
#define TILE_VECTOR __m512
#define TILE_VECTORS 2
#define TILE_LOAD _mm512_loadu_ps
#define TILE_FILL _mm512_set1_ps
#define TILE_ADD ADD_PAIRS
#define TILE_MAX _mm512_max_ps
#define TILE_MIN _mm512_min_ps
#include "backend/cpu/kernels/pointwise_tiles.h"

#define TILE_TARGET TARGET_AVX512_BF16
#define TILE_ONE half_pairs_tile
#define TILE_RUN run_half_pairs
#define TILE_ROWS 12
#define TILE_VECTOR __m512
#define TILE_VECTORS 1
#define TILE_LOAD _mm512_loadu_ps
#define TILE_FILL _mm512_set1_ps
#define TILE_ADD ADD_PAIRS
#define TILE_MAX _mm512_max_ps
#define TILE_MIN _mm512_min_ps
#include "backend/cpu/kernels/pointwise_tiles.h"
#endif

pointwise_kernel pointwise_pairs_kernel_for(bool half) {
#if KERNEL_X86
  if (cpu_has_avx512_bf16())
    return half ? (pointwise_kernel){16, run_half_pairs} : (pointwise_kernel){32, run_pairs};
#endif
#if KERNEL_ARM
  if (cpu_has_arm_bf16())
    return half ? (pointwise_kernel){4, run_half_pairs_arm} : (pointwise_kernel){8, run_pairs_arm};
#endif
  return half ? (pointwise_kernel){4, run_half_pairs_portable}
              : (pointwise_kernel){8, run_pairs_portable};
}

pointwise_kernel pointwise_kernel_for(bool half) {
#if KERNEL_X86
  if (cpu_has_avx512())
    return half ? (pointwise_kernel){16, run_half_avx512} : (pointwise_kernel){32, run_avx512};
  if (cpu_has_avx2())
    return half ? (pointwise_kernel){8, run_half_avx2} : (pointwise_kernel){16, run_avx2};
#endif
  return half ? (pointwise_kernel){4, run_half_portable} : (pointwise_kernel){8, run_portable};
}
