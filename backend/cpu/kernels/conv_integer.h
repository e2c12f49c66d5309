#ifndef BACKEND_CPU_KERNELS_CONV_INTEGER_H
#define BACKEND_CPU_KERNELS_CONV_INTEGER_H
/* Convolution of 8-bit integers: x I8 or U8 (type), weight I8, bias and out I32. */
#include "backend/cpu/kernels/conv_window.h"

typedef struct conv_integer_args {
  conv_args conv; /* type: of x */
  int padding_value;
} conv_integer_args;
KERNEL(conv_integer, conv_integer_args);

#endif
