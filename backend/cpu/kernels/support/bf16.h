#ifndef BACKEND_CPU_KERNELS_SUPPORT_BF16_H
#define BACKEND_CPU_KERNELS_SUPPORT_BF16_H
/* Reads and writes values that are F32 in the program but kept as BF16. */
#include "backend/cpu/kernels/support/rows.h"

/* True if `stored`, the type in which an F32 value is stored, is BF16. Compiled programs compute in
 * strict precision, which keeps no value as BF16, so there it is always false. */
static inline bool is_bf16(dtype stored) {
#ifdef KERNEL_COMPILED
  (void)stored;
  return false;
#else
  return stored == DTYPE_BF16;
#endif
}

bool bf16_is_fast(void); /* true if the processor has BF16 instructions */

/* Rounds n floats. Some processors flush subnormals to zero. */
void row_to_bf16(const float *from, int64_t n, uint16_t *to);
/* Rounds contiguous rows of n elements to rows that are `stride` elements apart. */
void rows_to_bf16(const float *from, int64_t rows, int64_t n, uint16_t *to, int64_t stride);
/* Converts n elements to floats, exactly. */
void widen_row(const uint16_t *from, int64_t n, float *to);
/* Joins two rows to n words of pairs.h; odd may be NULL for zeros. The second function reads every
 * other element of the rows. */
void bf16_join(const uint16_t *even, const uint16_t *odd, int64_t n, uint32_t *to);
void bf16_join_halves(const uint16_t *even, const uint16_t *odd, int64_t n, uint32_t *to);
/* Like pairs_join_panels, for rows of BF16. */
void bf16_join_panels(const uint16_t *x, int64_t stride, int64_t rows, int64_t n, int64_t width,
                      uint32_t *to);
double bf16_sum(const uint16_t *x, int64_t n);
/* Adds the sum of (x - shift) to sums[0] and the sum of its squares to sums[1]. Blocks of 1,024
 * elements may be summed in F32. */
void bf16_moments(const uint16_t *x, int64_t n, float shift, double sums[2]);
/* to = x * scale + shift */
void bf16_shift(const uint16_t *x, int64_t n, float scale, float shift, float *to);
/* Stores x times a number, or x plus it, rounded. */
void bf16_combine(bool multiplies, const uint16_t *x, int64_t n, float number, uint16_t *to);
/* Maxima compare BF16 values as int16_t whose order is that of the values; NaN is the largest.
 * bf16_larger converts to such integers, bf16_ordered converts back. */
enum { BF16_MIN = -0x7f81 /* the integer of -infinity */ };
/* y[i] = max(y[i], the integer of x[i]), where 0 is larger than -0. */
void bf16_larger(const uint16_t *x, int64_t n, int16_t *y);
/* y[i] = max(y[i], x[2 i]). */
void bf16_larger_halves(const int16_t *x, int64_t n, int16_t *y);
void bf16_ordered(const int16_t *x, int64_t n, uint16_t *to);

/* Returns the address of element `index` of values that are BF16 or F32. */
static inline const void *float_at(const void *data, bool bf16, int64_t index) {
  return element_at(data, bf16 ? DTYPE_BF16 : DTYPE_F32, index);
}

#endif
