#ifndef BACKEND_CPU_KERNELS_SUPPORT_BF16_H
#define BACKEND_CPU_KERNELS_SUPPORT_BF16_H
/* Values of F32 that are kept as BF16, where kernels read and write them. */
#include "backend/cpu/kernels/support/rows.h"

/* True if values that are F32 in the program are kept as BF16, by the type that they are stored as.
 * False where compiled programs run: they compute in strict precision, which keeps none so. */
static inline bool is_bf16(dtype stored) {
#ifdef KERNEL_COMPILED
  (void)stored;
  return false;
#else
  return stored == DTYPE_BF16;
#endif
}

bool bf16_pays(void); /* by the processor's instructions */

/* Rounds n floats. Of subnormals a processor may make zeros. */
void narrow_row(const float *from, int64_t n, uint16_t *to);
/* Rows of n that follow each other, to rows `step` apart. */
void narrow_rows(const float *from, int64_t rows, int64_t n, uint16_t *to, int64_t step);
void widen_row(const uint16_t *from, int64_t n, float *to);
/* n words of pairs.h of two rows, whose second may be NULL for zeros; of every other element. */
void bf16_join(const uint16_t *even, const uint16_t *odd, int64_t n, uint32_t *to);
void bf16_join_halves(const uint16_t *even, const uint16_t *odd, int64_t n, uint32_t *to);
/* pairs_join_panels of narrow rows. */
void bf16_join_panels(const uint16_t *x, int64_t step, int64_t rows, int64_t n, int64_t width,
                      uint32_t *to);
double bf16_sum(const uint16_t *x, int64_t n);
/* Adds the sums of x - shift and of its squares; of 1,024 elements in floats. */
void bf16_moments(const uint16_t *x, int64_t n, float shift, double sums[2]);
/* x * scale + shift */
void bf16_shift(const uint16_t *x, int64_t n, float scale, float shift, float *to);
/* x times or plus a number. */
void bf16_combine(bool multiplies, const uint16_t *x, int64_t n, float number, uint16_t *to);
/* Integers in the order of x, in which all that is no number is largest, and back. */
enum { BF16_LEAST = -0x7f81 /* of the infinity below all numbers */ };
/* y becomes the larger of itself and x's; zero is larger than minus zero. */
void bf16_larger(const uint16_t *x, int64_t n, int16_t *y);
/* Every other one. */
void bf16_larger_halves(const int16_t *x, int64_t n, int16_t *y);
void bf16_ordered(const int16_t *x, int64_t n, uint16_t *to);

/* Element `index` of values that are BF16 or F32. */
static inline const void *float_at(const void *data, bool bf16, int64_t index) {
  return element_at(data, bf16 ? DTYPE_BF16 : DTYPE_F32, index);
}

#endif
