#ifndef BACKEND_CPU_KERNELS_CONV_CONV_INTEGER_DOTS_H
#define BACKEND_CPU_KERNELS_CONV_CONV_INTEGER_DOTS_H
/* Small ConvInteger whose windows cover the whole input, as in streaming models: each output is the
 * dot product of two contiguous rows of bytes. The weight is not packed. */
#include "backend/cpu/kernels/conv/conv_integer_args.h"

bool conv_integer_is_dots(const conv_args *args);
/* Returns false, and does nothing, unless conv_integer_is_dots. */
bool conv_integer_dots_run(const conv_integer_args *args);

#endif
