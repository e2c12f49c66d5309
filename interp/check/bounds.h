#ifndef INTERP_CHECK_BOUNDS_H
#define INTERP_CHECK_BOUNDS_H
/* Bounds checks for custom kernels. */
#include "interp/check/checking.h"

/* Runs a custom op's kernel on the device; an error if it writes outside its results. */
clave_status run_guarded(const checking *checking, const recording *recording, void **state,
                         const run_operands *operands) STATUS_CHECK;

#endif
