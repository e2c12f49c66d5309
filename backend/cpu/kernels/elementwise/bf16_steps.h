#ifndef BACKEND_CPU_KERNELS_ELEMENTWISE_BF16_STEPS_H
#define BACKEND_CPU_KERNELS_ELEMENTWISE_BF16_STEPS_H
/* Steps whose result is kept as BF16 (bf16.h). */
#include "backend/cpu/kernels/elementwise/step_rows.h"

/* steps_in_place of n values, of a list with no other input, as exactly as what they are rounded to
 * needs: SiLU within 2^-12 of itself, GELU within 2^-10 (below -6
 * within 2^-29 of its input); both give minus infinity as it is, where 0 times it is NaN. */
void bf16_steps(const short_elementwise_args *args, float *values, int64_t n);

#endif
