#ifndef BACKEND_CPU_KERNELS_ELEMENTWISE_ELEMENTWISE_H
#define BACKEND_CPU_KERNELS_ELEMENTWISE_ELEMENTWISE_H
/* Lists of elementwise steps, distributed over threads. */
#include "backend/cpu/kernels/elementwise/step_rows.h"

KERNEL(elementwise, elementwise_args);
KERNEL(short_elementwise, short_elementwise_args);

#endif
