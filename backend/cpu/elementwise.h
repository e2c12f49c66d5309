#ifndef BACKEND_CPU_ELEMENTWISE_H
#define BACKEND_CPU_ELEMENTWISE_H
/* Converts elementwise steps to the arguments of kernels/elementwise.c. */
#include "backend/cpu/cpu.h"
#include "backend/cpu/kernels/elementwise/elementwise.h"
#include "ops/elementwise.h"

/* Returns the arguments for all steps of a description. */
elementwise_args elementwise_arguments(cpu_recorder *recorder, const elementwise_desc *desc);
/* Returns false, and does not change *out, if the steps or inputs exceed short_elementwise_args. */
bool short_steps(cpu_recorder *recorder, const elementwise_desc *desc, short_elementwise_args *out);

#endif
