#ifndef BACKEND_OPENCL_OPS_CONV_CONV_DOTS_H
#define BACKEND_OPENCL_OPS_CONV_CONV_DOTS_H
/* Convolutions of integers by instructions that add products of bytes:
 * kernels_cl/conv/conv_dots.cl. */
#include "backend/opencl/opencl.h"
#include "ops/conv.h"

/* Whether the device has kernels for it: of a constant weight. *fast: and an instruction. */
clave_status conv_dots_usable(cl_recorder *s, const conv_form *f, bool *usable,
                              bool *fast) STATUS_CHECK;
clave_status conv_dots(cl_recorder *s, const node *n, const conv_form *f) STATUS_CHECK;

#endif
