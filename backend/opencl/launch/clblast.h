#ifndef BACKEND_OPENCL_LAUNCH_CLBLAST_H
#define BACKEND_OPENCL_LAUNCH_CLBLAST_H
/* The library CLBlast: opened at the first product that wants it, and optional; f32 only, since its
 * half precision also adds up in half. */
#include "backend/opencl/launch/stream.h"
#include "base/file.h"
/* Behind device.h, which says which version of OpenCL is meant. */
#include <clblast_c.h>

typedef struct clblast {
  library *library;       /* owned; NULL: it is not installed */
  cl_command_queue queue; /* by which it asks about the device */
  __typeof__(&CLBlastSgemmWithTempBuffer) gemm;
  __typeof__(&CLBlastSGemmTempBufferSize) temp_size;
  __typeof__(&CLBlastSgemmStridedBatched) batched;
} clblast;

/* Returns the library of the device, which the first call opens; NULL where it is not installed. */
clblast *clblast_of(cl_device *device);

typedef struct matrix {
  uint32_t slot;
  size_t offset, ld, stride; /* elements; offset: from where the slot begins; stride: between
                                batches */
  CLBlastTranspose transpose;
  bool usable;
} matrix;

struct blas_call {
  size_t m, n, k, batches;
  float alpha, beta;
  matrix a, b, out;
};

#endif
