#ifndef BACKEND_CPU_REQUANTISE_H
#define BACKEND_CPU_REQUANTISE_H
/* Which elementwise nodes kernels/requantise.c computes. */
#include "backend/cpu/cpu.h"
#include "ops/elementwise.h"

/* Records the node, if it is one of those; *done says. */
clave_status record_requantise(cpu_recorder *r, const elementwise_form *f, bool *done) STATUS_CHECK;

#endif
