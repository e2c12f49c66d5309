#ifndef BACKEND_CPU_KERNELS_ELEMENTWISE_BF16_STEPS_H
#define BACKEND_CPU_KERNELS_ELEMENTWISE_BF16_STEPS_H
/* Elementwise steps whose result is stored as BF16 (bf16.h). */
#include "backend/cpu/kernels/elementwise/step_rows.h"

/* Works like steps_in_place, for n values and a list without other inputs, only as exactly as BF16
 * needs. SiLU has a relative error below 2^-12, GELU below 2^-10 (below -6, an error of 2^-29 of
 * its input). Both return minus infinity for minus infinity, although 0 times it is NaN. */
void bf16_steps(const short_elementwise_args *args, float *values, int64_t n);

#endif
