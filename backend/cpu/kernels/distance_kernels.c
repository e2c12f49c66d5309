/* Computes distances, one term of all pairs at a time. Each lane is a pair of rows. */
#include "backend/cpu/kernels/distance_kernels.h"

#include <math.h>
#include <string.h>

#include "backend/cpu/kernels/support/features.h"
#include "base/counts.h"

enum { ROWS = DISTANCE_ROWS, LANES = DISTANCE_LANES, BLOCK = 64 };

/* The compiler splits these into as many registers as the target needs. */
typedef float lanes __attribute__((vector_size(64)));
typedef int32_t lane_bits __attribute__((vector_size(64)));

/* Adds another difference to *sum; NaN stays. */
KERNEL_INLINE void add_difference(distance_norm norm, lanes *sum, const lanes *to) {
  if (norm == DISTANCE_EUCLIDEAN) {
    *sum += *to * *to;
    return;
  }
  const lanes size = (lanes)((lane_bits)*to & INT32_MAX);
  if (norm == DISTANCE_SUM) {
    *sum += size;
    return;
  }
  const lane_bits take = (size > *sum) | (size != size);
  *sum = (lanes)((take & (lane_bits)size) | (~take & (lane_bits)*sum));
}

KERNEL_INLINE void distance_kernels_run_tile(distance_norm norm, const distance_tile *tile) {
  lanes total[ROWS] = {{0}};
  for (int64_t from = 0; from < tile->m; from += BLOCK) {
    const int64_t end = min_i64(tile->m, from + BLOCK);
    lanes sum[ROWS] = {{0}};
    for (int64_t k = from; k < end; k++) {
      lanes b;
      memcpy(&b, tile->b + k * LANES, sizeof b);
#pragma GCC unroll 4
      for (int r = 0; r < ROWS; r++) {
        const lanes d = tile->a[r][k] - b;
        add_difference(norm, &sum[r], &d);
      }
    }
#pragma GCC unroll 4
    for (int r = 0; r < ROWS; r++) {
      if (norm == DISTANCE_LARGEST)
        add_difference(norm, &total[r], &sum[r]);
      else
        total[r] += sum[r];
    }
  }
  memcpy(tile->out, total, sizeof total);
  if (norm == DISTANCE_EUCLIDEAN)
    for (int i = 0; i < ROWS * LANES; i++) tile->out[i] = sqrtf(tile->out[i]);
}

/* Calls a copy of distance_kernels_run_tile for each norm. */
KERNEL_INLINE void run_any(distance_norm norm, const distance_tile *tile) {
  if (norm == DISTANCE_EUCLIDEAN)
    distance_kernels_run_tile(DISTANCE_EUCLIDEAN, tile);
  else if (norm == DISTANCE_SUM)
    distance_kernels_run_tile(DISTANCE_SUM, tile);
  else
    distance_kernels_run_tile(DISTANCE_LARGEST, tile);
}

static void distance_kernels_run_portable(distance_norm norm, const distance_tile *tile) {
  run_any(norm, tile);
}
#if KERNEL_X86
TARGET_AVX2 static void distance_kernels_run_avx2(distance_norm norm, const distance_tile *tile) {
  run_any(norm, tile);
}
TARGET_AVX512 static void run_avx512(distance_norm norm, const distance_tile *tile) {
  run_any(norm, tile);
}
#endif

void distance_run_tile(distance_norm norm, const distance_tile *tile) {
#if KERNEL_X86
  if (cpu_has_avx512()) {
    run_avx512(norm, tile);
    return;
  }
  if (cpu_has_avx2()) {
    distance_kernels_run_avx2(norm, tile);
    return;
  }
#endif
  distance_kernels_run_portable(norm, tile);
}

/* ---------------------------------------------------------------- distances from products */

/* Added to the bits of an infinity or of any NaN, it sets the sign bit. */
enum { MIN_EXPONENT = 1 << 23 };

/* Implements distance_of_products, for each instruction set. */
KERNEL_INLINE bool of_products(float squares, const float *others, int64_t n, float *c) {
  lane_bits near = {0};
  bool is_near = false;
  int64_t j = 0;
  for (; j + LANES <= n; j += LANES) {
    lanes all, root;
    float roots[LANES];
    memcpy(&all, others + j, sizeof all);
    memcpy(&root, c + j, sizeof root);
    all += squares;
    root = all - 2 * root;
    memcpy(roots, &root, sizeof root);
    for (int i = 0; i < LANES; i++) roots[i] = sqrtf(roots[i]);
    memcpy(&root, roots, sizeof root);
    const lanes margin = DISTANCE_MARGIN(all, root);
    near |= (lane_bits)margin | ((lane_bits)margin + MIN_EXPONENT);
    memcpy(c + j, &root, sizeof root);
  }
  for (; j < n; j++) {
    const float all = others[j] + squares;
    c[j] = sqrtf(all - 2 * c[j]);
    is_near |= distance_is_near(all, c[j]);
  }
  for (int i = 0; i < LANES; i++) is_near |= near[i] < 0;
  return is_near;
}

static bool products_portable(float squares, const float *others, int64_t n, float *c) {
  return of_products(squares, others, n, c);
}
#if KERNEL_X86
TARGET_AVX2 static bool products_avx2(float squares, const float *others, int64_t n, float *c) {
  return of_products(squares, others, n, c);
}
TARGET_AVX512 static bool products_avx512(float squares, const float *others, int64_t n, float *c) {
  return of_products(squares, others, n, c);
}
#endif

bool distance_of_products(float squares, const float *others, int64_t n, float *c) {
#if KERNEL_X86
  if (cpu_has_avx512()) return products_avx512(squares, others, n, c);
  if (cpu_has_avx2()) return products_avx2(squares, others, n, c);
#endif
  return products_portable(squares, others, n, c);
}
