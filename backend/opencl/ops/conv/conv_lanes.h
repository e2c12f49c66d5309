#ifndef BACKEND_OPENCL_OPS_CONV_CONV_LANES_H
#define BACKEND_OPENCL_OPS_CONV_CONV_LANES_H
/* Convolutions of images with outputs in lanes: kernels_cl/conv/conv_lanes.cl. */
#include "backend/opencl/opencl.h"
#include "ops/conv.h"

bool conv_lanes_usable(cl_recorder *s, const conv_form *f);
/* Whether that is faster than direct sums and products: of strides, windows and small images. */
bool conv_lanes_suit(const conv_form *f);
clave_status conv_lanes(cl_recorder *s, const node *n, const conv_form *f) STATUS_CHECK;

#endif
