/* Tiles of convolutions that are summed directly. */
#include "backend/cpu/kernels/direct_kernels.h"

#include <string.h>

#include "backend/cpu/kernels/avx512.h"
#include "backend/cpu/kernels/vec4.h"

enum { AHEAD = 2048 /* bytes of the weight */ };

/* Strides that have code of their own. */
#define RUN_STEPS(run, t, rows) \
  do {                          \
    if ((t)->step == 1)         \
      run(t, rows, 1);          \
    else if ((t)->step == 2)    \
      run(t, rows, 2);          \
    else                        \
      run(t, rows, (t)->step);  \
  } while (0)

/* ---------------------------------------------------------------- any processor */

#if defined(__aarch64__)
#define PORTABLE_ROWS 4
#else
#define PORTABLE_ROWS 2
#endif
#define PORTABLE_FILL(x) \
  (vec4) { (x), (x), (x), (x) }

#define TILE_TARGET
#define TILE_ONE portable_one
#define TILE_RUN portable_rows
#define TILE_ROWS PORTABLE_ROWS
#define TILE_VECTOR vec4
#define TILE_VECTORS 4
#define TILE_LOAD vec4_load
#define TILE_FILL PORTABLE_FILL
#define TILE_ADD(a, b, sum) vec4_add_product(sum, a, b)
#include "backend/cpu/kernels/direct_tiles.h"
static void portable(const direct_product *t, int rows) { RUN_STEPS(portable_rows, t, rows); }

#define TILE_TARGET
#define TILE_ONE few_portable_one
#define TILE_RUN few_portable_rows
#define TILE_ROWS PORTABLE_ROWS
#define TILE_VECTOR vec4
#define TILE_VECTORS 2
#define TILE_LOAD vec4_load
#define TILE_FILL PORTABLE_FILL
#define TILE_ADD(a, b, sum) vec4_add_product(sum, a, b)
#include "backend/cpu/kernels/direct_tiles.h"
static void few_portable(const direct_product *t, int rows) {
  RUN_STEPS(few_portable_rows, t, rows);
}

#define TILE_TARGET
#define TILE_ONE pairs_portable_one
#define TILE_RUN pairs_portable_rows
#define TILE_ROWS PORTABLE_ROWS
#define TILE_VECTOR vec4
#define TILE_VECTORS 4
#define TILE_LOAD vec4_load
#define TILE_FILL PORTABLE_FILL
#define TILE_ADD(a, b, sum) vec4_add_pairs(sum, a, b)
#include "backend/cpu/kernels/direct_tiles.h"
static void pairs_portable(const direct_product *t, int rows) {
  RUN_STEPS(pairs_portable_rows, t, rows);
}

#if KERNEL_ARM
#define TILE_TARGET TARGET_ARM_BF16
#define TILE_ONE pairs_arm_one
#define TILE_RUN pairs_arm_rows
#define TILE_ROWS PORTABLE_ROWS
#define TILE_VECTOR vec4
#define TILE_VECTORS 4
#define TILE_LOAD vec4_load
#define TILE_FILL PORTABLE_FILL
#define TILE_ADD(a, b, sum) vec4_add_bfdot(sum, a, b)
#include "backend/cpu/kernels/direct_tiles.h"
TARGET_ARM_BF16 static void pairs_arm(const direct_product *t, int rows) {
  RUN_STEPS(pairs_arm_rows, t, rows);
}
#endif

#if KERNEL_X86
/* ---------------------------------------------------------------- AVX2 */

#define TILE_TARGET TARGET_AVX2
#define TILE_ONE avx2_one
#define TILE_RUN avx2_rows
#define TILE_ROWS 6
#define TILE_VECTOR __m256
#define TILE_VECTORS 2
#define TILE_LOAD _mm256_loadu_ps
#define TILE_FILL _mm256_set1_ps
#define TILE_ADD _mm256_fmadd_ps
#include "backend/cpu/kernels/direct_tiles.h"
TARGET_AVX2 static void avx2(const direct_product *t, int rows) { RUN_STEPS(avx2_rows, t, rows); }

#define TILE_TARGET TARGET_AVX2
#define TILE_ONE few_avx2_one
#define TILE_RUN few_avx2_rows
#define TILE_ROWS 6
#define TILE_VECTOR __m256
#define TILE_VECTORS 1
#define TILE_LOAD _mm256_loadu_ps
#define TILE_FILL _mm256_set1_ps
#define TILE_ADD _mm256_fmadd_ps
#include "backend/cpu/kernels/direct_tiles.h"
TARGET_AVX2 static void few_avx2(const direct_product *t, int rows) {
  RUN_STEPS(few_avx2_rows, t, rows);
}

/* ---------------------------------------------------------------- AVX-512 */

#define TILE_TARGET TARGET_AVX512
#define TILE_ONE avx512_one
#define TILE_RUN avx512_rows
#define TILE_ROWS 12
#define TILE_VECTOR __m512
#define TILE_VECTORS 2
#define TILE_LOAD _mm512_loadu_ps
#define TILE_FILL _mm512_set1_ps
#define TILE_ADD _mm512_fmadd_ps
#include "backend/cpu/kernels/direct_tiles.h"
TARGET_AVX512 static void avx512(const direct_product *t, int rows) {
  RUN_STEPS(avx512_rows, t, rows);
}

#define TILE_TARGET TARGET_AVX512
#define TILE_ONE few_avx512_one
#define TILE_RUN few_avx512_rows
#define TILE_ROWS 12
#define TILE_VECTOR __m512
#define TILE_VECTORS 1
#define TILE_LOAD _mm512_loadu_ps
#define TILE_FILL _mm512_set1_ps
#define TILE_ADD _mm512_fmadd_ps
#include "backend/cpu/kernels/direct_tiles.h"
TARGET_AVX512 static void few_avx512(const direct_product *t, int rows) {
  RUN_STEPS(few_avx512_rows, t, rows);
}

/* ---------------------------------------------------------------- AVX-512 BF16 */

#define ADD_PAIRS(a, b, sum) _mm512_dpbf16_ps(sum, (__m512bh)(a), (__m512bh)(b))

#define TILE_TARGET TARGET_AVX512_BF16
#define TILE_ONE pairs_one
#define TILE_RUN pairs_rows
#define TILE_ROWS 12
#define TILE_VECTOR __m512
#define TILE_VECTORS 2
#define TILE_LOAD _mm512_loadu_ps
#define TILE_FILL _mm512_set1_ps
#define TILE_ADD ADD_PAIRS
#include "backend/cpu/kernels/direct_tiles.h"
TARGET_AVX512_BF16 static void pairs(const direct_product *t, int rows) {
  RUN_STEPS(pairs_rows, t, rows);
}

#define TILE_TARGET TARGET_AVX512_BF16
#define TILE_ONE few_pairs_one
#define TILE_RUN few_pairs_rows
#define TILE_ROWS 12
#define TILE_VECTOR __m512
#define TILE_VECTORS 1
#define TILE_LOAD _mm512_loadu_ps
#define TILE_FILL _mm512_set1_ps
#define TILE_ADD ADD_PAIRS
#include "backend/cpu/kernels/direct_tiles.h"
TARGET_AVX512_BF16 static void few_pairs(const direct_product *t, int rows) {
  RUN_STEPS(few_pairs_rows, t, rows);
}
#endif

direct_kernel direct_pairs_kernel_for(bool few) {
#if KERNEL_X86
  if (cpu_has_avx512_bf16())
    return few ? (direct_kernel){12, 16, few_pairs} : (direct_kernel){12, 32, pairs};
#endif
#if KERNEL_ARM
  if (cpu_has_arm_bf16()) return (direct_kernel){PORTABLE_ROWS, 16, pairs_arm};
#endif
  (void)few;
  return (direct_kernel){PORTABLE_ROWS, 16, pairs_portable};
}

direct_kernel direct_kernel_for(bool few) {
#if KERNEL_X86
  if (cpu_has_avx512())
    return few ? (direct_kernel){12, 16, few_avx512} : (direct_kernel){12, 32, avx512};
  if (cpu_has_avx2()) return few ? (direct_kernel){6, 8, few_avx2} : (direct_kernel){6, 16, avx2};
#endif
  return few ? (direct_kernel){PORTABLE_ROWS, 8, few_portable}
             : (direct_kernel){PORTABLE_ROWS, 16, portable};
}
