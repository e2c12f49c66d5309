#ifndef BACKEND_OPENCL_OPS_CONV_CONV_KEY_H
#define BACKEND_OPENCL_OPS_CONV_CONV_KEY_H
/* What the tuning table knows a convolution by. */
#include "backend/opencl/opencl.h"
#include "ops/conv.h"

tuning_key conv_key(const cl_recorder *s, const conv_form *f);

#endif
