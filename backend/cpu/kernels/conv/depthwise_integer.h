#ifndef BACKEND_CPU_KERNELS_CONV_DEPTHWISE_INTEGER_H
#define BACKEND_CPU_KERNELS_CONV_DEPTHWISE_INTEGER_H
/* Planes of 8-bit integers convolved by themselves, a channel of the weight each. */
#include "backend/cpu/kernels/conv/conv_integer_args.h"

/* Whether this processor has a kernel for it: few taps, near one another. */
bool depthwise_integer_fits(const conv_integer_args *args);
/* Runs it, without scratch memory. */
void depthwise_integer_run(const kernel_context *ctx, const conv_integer_args *args);

#endif
