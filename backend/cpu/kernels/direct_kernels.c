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

static void run_portable(const direct_product *t, int rows) { portable_run(t, rows, 4); }

#define TILE_TARGET
#define TILE(name) pairs_portable_##name
#define TILE_ROWS VEC4_ROWS
#define TILE_VECTOR vec4
#define TILE_VECTORS 4
#define TILE_LOAD vec4_load
#define TILE_FILL vec4_fill
#define TILE_ADD(a, b, sum) vec4_add_pairs(sum, a, b)
#include "backend/cpu/kernels/direct_tiles.h"

static void run_pairs_portable(const direct_product *t, int rows) {
  pairs_portable_run(t, rows, 4);
}

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

TARGET_ARM_BF16 static void run_pairs_arm(const direct_product *t, int rows) {
  pairs_arm_run(t, rows, 4);
}
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

TARGET_AVX2 static void run_avx2(const direct_product *t, int rows) { avx2_run(t, rows, 2); }

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

TARGET_AVX512 static void run_avx512(const direct_product *t, int rows) { avx512_run(t, rows, 2); }
TARGET_AVX512 static void run_half_avx512(const direct_product *t, int rows) {
  avx512_run(t, rows, 1);
}

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

TARGET_AVX512_BF16 static void run_pairs_avx512(const direct_product *t, int rows) {
  pairs_avx512_run(t, rows, 2);
}
TARGET_AVX512_BF16 static void run_half_pairs_avx512(const direct_product *t, int rows) {
  pairs_avx512_run(t, rows, 1);
}
#endif

direct_kernel direct_pairs_kernel_for(int64_t outputs) {
#if KERNEL_X86
  if (cpu_has_avx512_bf16())
    return outputs <= 16 ? (direct_kernel){12, 16, run_half_pairs_avx512}
                         : (direct_kernel){12, 32, run_pairs_avx512};
#endif
#if KERNEL_ARM
  if (cpu_has_arm_bf16()) return (direct_kernel){VEC4_ROWS, 16, run_pairs_arm};
#endif
  (void)outputs;
  return (direct_kernel){VEC4_ROWS, 16, run_pairs_portable};
}

direct_kernel direct_kernel_for(int64_t outputs) {
#if KERNEL_X86
  if (cpu_has_avx512())
    return outputs <= 16 ? (direct_kernel){12, 16, run_half_avx512}
                         : (direct_kernel){12, 32, run_avx512};
  if (cpu_has_avx2()) return (direct_kernel){6, 16, run_avx2};
#endif
  (void)outputs;
  return (direct_kernel){VEC4_ROWS, 16, run_portable};
}
