#ifndef BACKEND_OPENCL_CONV_LANES_H
#define BACKEND_OPENCL_CONV_LANES_H
/* Convolutions of images with outputs in lanes: kernels_cl/conv_lanes.cl. */
#include "backend/opencl/opencl.h"
#include "ops/conv.h"

bool conv_lanes_usable(cl_recorder *s, const conv_form *f);
/* Whether that is faster than direct sums and products: of strides, windows and small images. */
bool conv_lanes_suit(const conv_form *f, bool pairs);
/* Whether it may be of pairs of BF16, which is faster. */
clave_status conv_lanes_takes_pairs(cl_recorder *s, const conv_form *f, bool *out) STATUS_CHECK;
clave_status conv_lanes(cl_recorder *s, const node *n, const conv_form *f, bool pairs) STATUS_CHECK;

#endif
