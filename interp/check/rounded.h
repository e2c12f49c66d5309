#ifndef INTERP_CHECK_ROUNDED_H
#define INTERP_CHECK_ROUNDED_H
/* Rounds operands as kernels do. */
#include "interp/check/checking.h"

/* Rounds the elements of an operand's copy as checking->rounds says, and stores them as floats of
 * type `to` in the buffer *made, which is created if NULL. *out is the rounded operand. */
clave_status bind_rounded(checking *checking, const bound_tensor *tensor, dtype to, buffer **made,
                          bound_tensor *out) STATUS_CHECK;

#endif
