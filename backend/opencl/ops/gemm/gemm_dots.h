#ifndef BACKEND_OPENCL_OPS_GEMM_GEMM_DOTS_H
#define BACKEND_OPENCL_OPS_GEMM_GEMM_DOTS_H
/* Products with b in panels of codes, if CLAVE_PRECISION=fast allows rounding: a is rounded to 8
 * bits in groups of 32 elements of k, and integers are multiplied. */
#include "backend/opencl/ops/gemm/gemm_codes.h"

bool gemm_dots_usable(const gemm *gemm, code_panels *panels);
clave_status gemm_dots(const gemm *gemm, const code_panels *panels) STATUS_CHECK;

#endif
