#ifndef BACKEND_OPENCL_GEMM_H
#define BACKEND_OPENCL_GEMM_H
/* The choice among GEMM implementations, and CLBlast behind it. */
#include "backend/opencl/opencl.h"

void gemm_clblast_close(cl_device *d);

#endif
