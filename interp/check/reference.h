#ifndef INTERP_CHECK_REFERENCE_H
#define INTERP_CHECK_REFERENCE_H
/* The reference of a custom op. */
#include "interp/check/checking.h"

/* Runs a custom op's reference on the copies. Sets *fault like run_oracle. */
clave_status run_reference(const checking *checking, device_fault *fault) STATUS_CHECK;

#endif
