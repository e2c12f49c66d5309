#ifndef BACKEND_OPENCL_NARROW_H
#define BACKEND_OPENCL_NARROW_H
/* Which ops take operands as BF16 that the program has as F32, in fast precision: on CPUs whose
 * kernels multiply pairs of BF16 (kernels_cl/pairs.h). */
#include "backend/opencl/opencl.h"

/* backend.takes_narrow */
bool opencl_takes_narrow(backend *b, const node *n, uint32_t slot);

/* Of each family, in its file. */
bool opencl_conv_takes_narrow(cl_recorder *s, const node *n, uint32_t slot);
bool opencl_conv_transpose_takes_narrow(cl_recorder *s, const node *n, uint32_t slot);
bool opencl_layer_norm_takes_narrow(cl_recorder *s, const node *n, uint32_t slot);
bool opencl_matmul_takes_narrow(cl_recorder *s, const node *n, uint32_t slot);
bool opencl_rms_norm_takes_narrow(cl_recorder *s, const node *n, uint32_t slot);

#endif
