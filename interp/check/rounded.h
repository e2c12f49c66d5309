#ifndef INTERP_CHECK_ROUNDED_H
#define INTERP_CHECK_ROUNDED_H
/* Rounds operands as kernels do. */
#include "interp/check/checking.h"

/* Rounds the elements of an operand's copy as checking->rounds says, to floats of type `to`. *out
 * is the operand in *made, which is created if NULL. */
clave_status bind_rounded(checking *checking, const bound_tensor *tensor, dtype to, buffer **made,
                          bound_tensor *out) STATUS_CHECK;

#endif
