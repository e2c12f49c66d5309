#ifndef BACKEND_CPU_KERNELS_CONV_CONV_INTEGER_STEPS_H
#define BACKEND_CPU_KERNELS_CONV_CONV_INTEGER_STEPS_H
/* Convolution of 8-bit integers followed by any elementwise steps on its sums. */
#include "backend/cpu/kernels/conv/conv_integer.h"
#include "backend/cpu/kernels/elementwise/elementwise.h"

typedef struct conv_integer_steps_args {
  conv_integer_args conv; /* without codes; out is NULL */
  elementwise_args steps; /* inputs[0]: the sums, data is NULL */
} conv_integer_steps_args;
KERNEL(conv_integer_steps, conv_integer_steps_args);

#endif
