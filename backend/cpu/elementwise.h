#ifndef BACKEND_CPU_ELEMENTWISE_H
#define BACKEND_CPU_ELEMENTWISE_H
/* Elementwise steps as the arguments of kernels/elementwise.c. */
#include "backend/cpu/cpu.h"
#include "backend/cpu/kernels/elementwise/elementwise.h"
#include "ops/elementwise.h"

elementwise_args elementwise_arguments(cpu_recorder *recorder, const elementwise_form *desc);
/* False: it is not short. */
bool short_steps(cpu_recorder *recorder, const elementwise_form *desc, short_elementwise_args *out);

#endif
