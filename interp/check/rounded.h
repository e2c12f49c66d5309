#ifndef INTERP_CHECK_ROUNDED_H
#define INTERP_CHECK_ROUNDED_H
/* Operands rounded as kernels round them. */
#include "interp/check/checking.h"

/* The elements of an operand's copy, rounded as c->rounds says once they are multiplied by `scale`,
 * as floats of type `to`, in *made, which is created unless it is there. */
clave_status bind_rounded(checking *c, const bound_tensor *x, dtype to, double scale, buffer **made,
                          bound_tensor *out) STATUS_CHECK;

#endif
