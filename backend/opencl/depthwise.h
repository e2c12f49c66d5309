#ifndef BACKEND_OPENCL_DEPTHWISE_H
#define BACKEND_OPENCL_DEPTHWISE_H
/* Depthwise convolutions of small kernels on CPUs. */
#include "backend/opencl/opencl.h"
#include "ops/conv.h"

/* Whether `opencl_depthwise` runs it on the recorder's device. */
bool depthwise_usable(const cl_recorder *s, const conv_form *f);
clave_status opencl_depthwise(cl_recorder *s, const node *n, const conv_form *f) STATUS_CHECK;
/* With planes in lanes; and whether that is faster: where rows are narrow. */
bool depthwise_lanes_usable(const cl_recorder *s, const conv_form *f);
bool depthwise_lanes_suit(const conv_form *f);
/* Whether either reads and writes BF16: rows fit private memory. */
bool depthwise_takes_narrow(const conv_form *f);
clave_status opencl_depthwise_lanes(cl_recorder *s, const node *n, const conv_form *f) STATUS_CHECK;

/* Of 8-bit integers, with any kernel that has few columns. */
clave_status depthwise_integer_usable(cl_recorder *s, const conv_form *f,
                                      bool *usable) STATUS_CHECK;
clave_status opencl_depthwise_integer(cl_recorder *s, const node *n,
                                      const conv_form *f) STATUS_CHECK;

#endif
