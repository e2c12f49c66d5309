#ifndef BACKEND_OPENCL_OPS_GEMM_GEMM_CODES_H
#define BACKEND_OPENCL_OPS_GEMM_GEMM_CODES_H
/* Products with an encoded b in panels of codes: of floats on CPUs, of rounded rows (gemm_dots.h)
 * everywhere. */
#include "backend/opencl/ops/gemm/gemm.h"
#include "base/code_panels.h"

/* Whether b, a constant, can be; its layout. */
bool gemm_codes_of(const gemm *gemm, code_panels *panels);
/* Whether floats are multiplied with them. */
bool gemm_codes_usable(const gemm *gemm, code_panels *panels);
bool gemm_codes_few(const gemm *gemm); /* few enough rows for gemm_codes_rows */
clave_status gemm_codes_rows(const gemm *gemm, const code_panels *panels) STATUS_CHECK;

/* b, a form, for other kernels that include codes.h. */
clave_status gemm_codes_form(const gemm *gemm, const code_panels *panels, int *number) STATUS_CHECK;
void gemm_codes_define(launch *launch, const code_panels *panels);
codes_params gemm_codes_operand(const code_panels *panels, int form);

#endif
