/* Kernels of direct convolutions, per instruction set. */
#include "backend/cpu/kernels/conv/direct_kernels.h"

#include <string.h>

#include "backend/cpu/kernels/support/avx512.h"
#include "backend/cpu/kernels/support/vec4.h"

/* ---------------------------------------------------------------- any processor */

#if defined(__aarch64__)
#define VEC4_ROWS 4
#else
#define VEC4_ROWS 2
#endif

#define TILE_SET TILE_PORTABLE
#define TILE(name) portable_##name
#define TILE_ROWS VEC4_ROWS
#define TILE_VECTORS 4
#include "backend/cpu/kernels/conv/direct_tiles.h"

#define TILE_SET TILE_PORTABLE_PAIRS
#define TILE(name) pairs_portable_##name
#define TILE_ROWS VEC4_ROWS
#define TILE_VECTORS 4
#include "backend/cpu/kernels/conv/direct_tiles.h"

#if KERNEL_ARM
#define TILE_SET TILE_ARM_PAIRS
#define TILE(name) pairs_arm_##name
#define TILE_ROWS VEC4_ROWS
#define TILE_VECTORS 4
#include "backend/cpu/kernels/conv/direct_tiles.h"
#endif

#if KERNEL_X86
/* ---------------------------------------------------------------- AVX2 */

#define TILE_SET TILE_AVX2
#define TILE(name) avx2_##name
#define TILE_ROWS 6
#define TILE_VECTORS 2
#include "backend/cpu/kernels/conv/direct_tiles.h"

/* ---------------------------------------------------------------- AVX-512 */

#define TILE_SET TILE_AVX512
#define TILE(name) avx512_##name
#define TILE_ROWS 14
#define TILE_VECTORS 2
#include "backend/cpu/kernels/conv/direct_tiles.h"

/* ---------------------------------------------------------------- AVX-512 BF16 */

#define TILE_SET TILE_AVX512_PAIRS
#define TILE(name) pairs_avx512_##name
#define TILE_ROWS 12
#define TILE_VECTORS 2
#include "backend/cpu/kernels/conv/direct_tiles.h"
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
