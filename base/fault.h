#ifndef BASE_FAULT_H
#define BASE_FAULT_H
/* Messages for data errors of kernels. */
#include "base/kernel.h"
#include "base/status.h"

/* Returns INVALID, such as "index 7 out of range [0, 5]". The fault's kind must not be NONE. */
clave_status fault_status(const kernel_fault *fault) STATUS_CHECK;

#endif
