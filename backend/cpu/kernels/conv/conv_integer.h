#ifndef BACKEND_CPU_KERNELS_CONV_CONV_INTEGER_H
#define BACKEND_CPU_KERNELS_CONV_CONV_INTEGER_H
/* Convolution of 8-bit integers. */
#include "backend/cpu/kernels/conv/conv_integer_args.h"

KERNEL(conv_integer, conv_integer_args);

#endif
