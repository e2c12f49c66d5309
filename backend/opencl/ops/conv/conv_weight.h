#ifndef BACKEND_OPENCL_OPS_CONV_CONV_WEIGHT_H
#define BACKEND_OPENCL_OPS_CONV_CONV_WEIGHT_H
/* The floats of a convolution's weight of 16 bits, or an encoded one. */
#include "backend/opencl/opencl.h"

clave_status conv_floats(cl_recorder *s, const node *n, const bound_tensor *weight,
                         arg_buffer out) STATUS_CHECK;
/* Of a constant, made once. */
clave_status conv_float_form(cl_recorder *s, const node *n, const bound_tensor *weight,
                             arg_buffer *out) STATUS_CHECK;

#endif
