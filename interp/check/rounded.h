#ifndef INTERP_CHECK_ROUNDED_H
#define INTERP_CHECK_ROUNDED_H
/* Operands rounded as kernels round them. */
#include "interp/check/checking.h"

/* The elements of an operand's copy, rounded as checking->rounds says, as floats of type `to`, in
 * *made, which is created unless it is there. */
clave_status bind_rounded(checking *checking, const bound_tensor *tensor, dtype to, buffer **made,
                          bound_tensor *out) STATUS_CHECK;

#endif
