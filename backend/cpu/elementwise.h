#ifndef BACKEND_CPU_ELEMENTWISE_H
#define BACKEND_CPU_ELEMENTWISE_H
/* Steps of a description as those of kernels. */
#include "backend/cpu/cpu.h"
#include "backend/cpu/kernels/elementwise.h"
#include "ops/elementwise.h"

/* False: it is not short. */
bool short_steps(cpu_recorder *r, const elementwise_form *f, short_elementwise_args *out);

#endif
