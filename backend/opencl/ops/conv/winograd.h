#ifndef BACKEND_OPENCL_OPS_CONV_WINOGRAD_H
#define BACKEND_OPENCL_OPS_CONV_WINOGRAD_H
/* Convolutions by Winograd's method, in tiles of tile x tile outputs. */
#include "backend/opencl/opencl.h"
#include "ops/conv.h"

/* Whether `opencl_winograd` runs it on the recorder's device. */
bool winograd_usable(const cl_recorder *s, const conv_form *f, int tile);
clave_status opencl_winograd(cl_recorder *s, const node *n, const conv_form *f,
                             int tile) STATUS_CHECK;

#endif
