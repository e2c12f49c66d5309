#ifndef BACKEND_OPENCL_OPS_ENCODED_H
#define BACKEND_OPENCL_OPS_ENCODED_H
/* Encoded constants as operands of kernels: encoded.h of kernels_cl. */
#include "backend/opencl/opencl.h"

encoded_params encoded_operand(const bound_tensor *tensor);
/* Decodes the whole tensor to floats. */
clave_status opencl_decode(cl_recorder *recorder, const node *node, const bound_tensor *tensor,
                           arg_buffer out) STATUS_CHECK;
/* Records an IndexSelect of an encoded constant. */
clave_status opencl_pick_rows(cl_recorder *recorder, const node *node) STATUS_CHECK;

#endif
