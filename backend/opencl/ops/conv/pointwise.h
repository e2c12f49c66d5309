#ifndef BACKEND_OPENCL_OPS_CONV_POINTWISE_H
#define BACKEND_OPENCL_OPS_CONV_POINTWISE_H

#include "backend/opencl/opencl.h"
#include "ops/conv.h"

bool pointwise_usable(cl_recorder *s, const conv_form *f);
/* As a product of gemm.h. */
clave_status opencl_pointwise(cl_recorder *s, const node *n, const conv_form *f) STATUS_CHECK;
/* By kernels_cl/conv/pointwise.cl, which reads the planes of x where they lie: for CPUs. */
bool planes_usable(cl_recorder *s, const conv_form *f);
clave_status opencl_planes(cl_recorder *s, const node *n, const conv_form *f) STATUS_CHECK;

#endif
