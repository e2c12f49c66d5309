#ifndef BACKEND_OPENCL_OPS_CONV_DEPTHWISE_H
#define BACKEND_OPENCL_OPS_CONV_DEPTHWISE_H
/* Depthwise convolutions of small kernels on CPUs. */
#include "backend/opencl/opencl.h"
#include "ops/conv.h"

/* Whether `opencl_depthwise` runs it on the recorder's device. */
bool depthwise_usable(const cl_recorder *s, const conv_form *f);
clave_status opencl_depthwise(cl_recorder *s, const node *n, const conv_form *f) STATUS_CHECK;
#endif
