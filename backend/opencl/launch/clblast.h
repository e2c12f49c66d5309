#ifndef BACKEND_OPENCL_LAUNCH_CLBLAST_H
#define BACKEND_OPENCL_LAUNCH_CLBLAST_H
/* The optional library CLBlast, which is opened for the first product that could use it. Only f32
 * products use it, because its half precision also accumulates in half. */
#include "backend/opencl/launch/stream.h"
#include "base/file.h"
/* Include after device.h, which selects the OpenCL version. */
#include <clblast_c.h>

typedef struct clblast {
  library *library;       /* owned; NULL if it is not installed */
  cl_command_queue queue; /* used to query the device for temporary buffer sizes */
  __typeof__(&CLBlastSgemmWithTempBuffer) gemm;
  __typeof__(&CLBlastSGemmTempBufferSize) temp_size;
  __typeof__(&CLBlastSgemmStridedBatched) batched;
} clblast;

/* Returns the device's library, which the first call opens, or NULL if it is not installed. */
clblast *clblast_of(cl_device *device);

typedef struct matrix {
  uint32_t slot;
  size_t offset, ld, stride; /* elements; offset: from the slot's start; stride: between batches */
  CLBlastTranspose transpose;
  bool usable;
} matrix;

struct blas_call {
  size_t m, n, k, batches;
  float alpha, beta;
  matrix a, b, out;
};

#endif
