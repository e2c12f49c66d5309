#ifndef BACKEND_CPU_KERNELS_CONV_DEPTHWISE_INTEGER_H
#define BACKEND_CPU_KERNELS_CONV_DEPTHWISE_INTEGER_H
/* Depthwise convolution of 8-bit integers. */
#include "backend/cpu/kernels/conv/conv_integer_args.h"

/* True if this processor has a kernel for the convolution: it has few taps, close together. */
bool depthwise_integer_fits(const conv_integer_args *args);
/* Needs no scratch memory. */
void depthwise_integer_run(const kernel_context *ctx, const conv_integer_args *args);

#endif
