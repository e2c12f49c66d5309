/* Tiles of convolutions that are summed directly. */
#include "backend/cpu/kernels/direct_kernels.h"

#include <string.h>

#include "backend/cpu/kernels/avx512.h"
#include "backend/cpu/kernels/vec4.h"

enum { AHEAD = 2048 /* bytes of the weight */ };

/* ---------------------------------------------------------------- any processor */

#define TILE_TARGET
#define TILE(name) portable_##name
#if defined(__aarch64__)
#define TILE_ROWS 4
#else
#define TILE_ROWS 2
#endif
#define TILE_VECTOR vec4
#define TILE_VECTORS 4
#define TILE_LOAD vec4_load
#define TILE_FILL vec4_fill
#define TILE_ADD(a, b, sum) vec4_add_product(sum, a, b)
enum { PORTABLE_ROWS = TILE_ROWS };
#include "backend/cpu/kernels/direct_tiles.h"

static void run_portable(const direct_product *t, int rows) { portable_run(t, rows, 4); }

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
#endif

direct_kernel direct_kernel_for(int64_t outputs) {
#if KERNEL_X86
  if (cpu_has_avx512())
    return outputs <= 16 ? (direct_kernel){12, 16, run_half_avx512}
                         : (direct_kernel){12, 32, run_avx512};
  if (cpu_has_avx2()) return (direct_kernel){6, 16, run_avx2};
#endif
  (void)outputs;
  return (direct_kernel){PORTABLE_ROWS, 16, run_portable};
}
