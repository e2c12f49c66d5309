#ifndef BACKEND_OPENCL_POINTWISE_H
#define BACKEND_OPENCL_POINTWISE_H

#include "backend/opencl/opencl.h"
#include "ops/conv.h"

bool pointwise_usable(cl_recorder *s, const conv_form *f);
/* As a product of gemm.h; and whether that multiplies pairs of BF16, and of planes with what. */
clave_status opencl_pointwise(cl_recorder *s, const node *n, const conv_form *f) STATUS_CHECK;
clave_status pointwise_takes_pairs(cl_recorder *s, const conv_form *f, bool *out,
                                   amx_kind *planes) STATUS_CHECK;
/* By kernels_cl/pointwise.cl, which reads the planes of x where they lie, or makes pairs of them.
 */
bool planes_usable(cl_recorder *s, const conv_form *f, bool pairs, amx_kind amx);
clave_status opencl_planes(cl_recorder *s, const node *n, const conv_form *f,
                           bool pairs) STATUS_CHECK;

#endif
