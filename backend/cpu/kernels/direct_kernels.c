/* Tiles of convolutions that are summed directly. */
#include "backend/cpu/kernels/direct_kernels.h"

#include <string.h>

#include "backend/cpu/kernels/avx512.h"
#include "backend/cpu/kernels/vec4.h"

enum { AHEAD = 2048 /* bytes of the weight */ };

/* ---------------------------------------------------------------- any processor */

#if defined(__aarch64__)
#define VEC4_ROWS 4
#else
#define VEC4_ROWS 2
#endif

#define TILE_TARGET
#define TILE(name) portable_##name
#define TILE_ROWS VEC4_ROWS
#define TILE_VECTOR vec4
#define TILE_VECTORS 4
#define TILE_LOAD vec4_load
#define TILE_FILL vec4_fill
#define TILE_ADD(a, b, sum) vec4_add_product(sum, a, b)
#include "backend/cpu/kernels/direct_tiles.h"

#define TILE_TARGET
#define TILE(name) pairs_portable_##name
#define TILE_ROWS VEC4_ROWS
#define TILE_VECTOR vec4
#define TILE_VECTORS 4
#define TILE_LOAD vec4_load
#define TILE_FILL vec4_fill
#define TILE_ADD(a, b, sum) vec4_add_pairs(sum, a, b)
#include "backend/cpu/kernels/direct_tiles.h"

#if KERNEL_ARM
#define TILE_TARGET TARGET_ARM_BF16
#define TILE(name) pairs_arm_##name
#define TILE_ROWS VEC4_ROWS
#define TILE_VECTOR vec4
#define TILE_VECTORS 4
#define TILE_LOAD vec4_load
#define TILE_FILL vec4_fill
#define TILE_ADD(a, b, sum) vec4_add_bfdot(sum, a, b)
#include "backend/cpu/kernels/direct_tiles.h"
#endif

#if KERNEL_X86
/* ---------------------------------------------------------------- AVX2 */

#define TILE_TARGET TARGET_AVX2
#define TILE(name) avx2_##name
#define TILE_ROWS 6
#define TILE_VECTOR __m256
#define TILE_VECTORS 2
#define TILE_LOAD _mm256_loadu_ps
#define TILE_FILL _mm256_set1_ps
#define TILE_ADD _mm256_fmadd_ps
#include "backend/cpu/kernels/direct_tiles.h"

/* ---------------------------------------------------------------- AVX-512 */

#define TILE_TARGET TARGET_AVX512
#define TILE(name) avx512_##name
#define TILE_ROWS 12
#define TILE_VECTOR __m512
#define TILE_VECTORS 2
#define TILE_LOAD _mm512_loadu_ps
#define TILE_FILL _mm512_set1_ps
#define TILE_ADD _mm512_fmadd_ps
#include "backend/cpu/kernels/direct_tiles.h"

/* ---------------------------------------------------------------- AVX-512 BF16 */

#define ADD_PAIRS(a, b, sum) _mm512_dpbf16_ps(sum, (__m512bh)(a), (__m512bh)(b))

#define TILE_TARGET TARGET_AVX512_BF16
#define TILE(name) pairs_avx512_##name
#define TILE_ROWS 12
#define TILE_VECTOR __m512
#define TILE_VECTORS 2
#define TILE_LOAD _mm512_loadu_ps
#define TILE_FILL _mm512_set1_ps
#define TILE_ADD ADD_PAIRS
#include "backend/cpu/kernels/direct_tiles.h"
#endif

direct_kernel direct_pairs_kernel_for(int64_t outputs) {
  (void)outputs;
#if KERNEL_X86
  if (cpu_has_avx512_bf16()) return pairs_avx512_kernel_for(outputs);
#endif
#if KERNEL_ARM
  if (cpu_has_arm_bf16()) return pairs_arm_kernel();
#endif
  return pairs_portable_kernel();
}

direct_kernel direct_kernel_for(int64_t outputs) {
  (void)outputs;
#if KERNEL_X86
  if (cpu_has_avx512()) return avx512_kernel_for(outputs);
  if (cpu_has_avx2()) return avx2_kernel();
#endif
  return portable_kernel();
}
