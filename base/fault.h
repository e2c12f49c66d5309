#ifndef BASE_FAULT_H
#define BASE_FAULT_H
/* Data errors of kernels in words. */
#include "base/kernel.h"
#include "base/status.h"

/* INVALID, "index 7 out of range [0, 5]"; `fault` is of a kind other than NONE. */
clave_status fault_status(const kernel_fault *fault) STATUS_CHECK;

#endif
