/* Kernels of pointwise convolutions, per instruction set. */
#include "backend/cpu/kernels/conv/pointwise_kernels.h"
#include "backend/cpu/kernels/support/avx512.h"
#include "backend/cpu/kernels/support/vec4.h"

/* ---------------------------------------------------------------- any processor */

#define TILE_SET TILE_PORTABLE
#define TILE(name) portable_##name
#define TILE_ROWS 4
#define TILE_VECTORS 2
#include "backend/cpu/kernels/conv/pointwise_tiles.h"

#define TILE_SET TILE_PORTABLE_PAIRS
#define TILE(name) pairs_portable_##name
#define TILE_ROWS 4
#define TILE_VECTORS 2
#include "backend/cpu/kernels/conv/pointwise_tiles.h"

#if KERNEL_ARM
#define TILE_SET TILE_ARM_PAIRS
#define TILE(name) pairs_arm_##name
#define TILE_ROWS 12
#define TILE_VECTORS 2
#include "backend/cpu/kernels/conv/pointwise_tiles.h"
#endif

#if KERNEL_X86
/* ---------------------------------------------------------------- AVX2 */

#define TILE_SET TILE_AVX2
#define TILE(name) avx2_##name
#define TILE_ROWS 6
#define TILE_VECTORS 2
#include "backend/cpu/kernels/conv/pointwise_tiles.h"

/* ---------------------------------------------------------------- AVX-512 */

#define TILE_SET TILE_AVX512
#define TILE(name) avx512_##name
#define TILE_ROWS 12
#define TILE_VECTORS 2
#include "backend/cpu/kernels/conv/pointwise_tiles.h"

/* ---------------------------------------------------------------- AVX-512 BF16 */

#define TILE_SET TILE_AVX512_PAIRS
#define TILE(name) pairs_avx512_##name
#define TILE_ROWS 12
#define TILE_VECTORS 2
#include "backend/cpu/kernels/conv/pointwise_tiles.h"
#endif

pointwise_kernel pointwise_pairs_kernel_for(bool half) {
#if KERNEL_X86
  if (cpu_has_avx512_bf16()) return pairs_avx512_kernels[half];
#endif
#if KERNEL_ARM
  if (cpu_has_arm_bf16()) return pairs_arm_kernels[half];
#endif
  return pairs_portable_kernels[half];
}

pointwise_kernel pointwise_kernel_for(bool half) {
#if KERNEL_X86
  if (cpu_has_avx512()) return avx512_kernels[half];
  if (cpu_has_avx2()) return avx2_kernels[half];
#endif
  return portable_kernels[half];
}
