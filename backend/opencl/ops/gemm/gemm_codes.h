#ifndef BACKEND_OPENCL_OPS_GEMM_GEMM_CODES_H
#define BACKEND_OPENCL_OPS_GEMM_GEMM_CODES_H
/* Products with an encoded b in panels of codes: of floats on CPUs, of rounded rows (gemm_dots.h)
 * everywhere. */
#include "backend/opencl/ops/gemm/gemm.h"
#include "base/code_panels.h"

/* Whether b, a constant, can be; its layout. */
bool gemm_codes_of(const gemm *g, code_panels *p);
/* Whether floats are multiplied with them. */
bool gemm_codes_usable(const gemm *g, code_panels *p);
bool gemm_codes_few(const gemm *g); /* few enough rows for gemm_codes_rows */
clave_status gemm_codes_rows(const gemm *g, const code_panels *p) STATUS_CHECK;

/* b, a form, for other kernels that include codes.h. */
clave_status gemm_codes_form(const gemm *g, const code_panels *p, int *number) STATUS_CHECK;
void gemm_codes_define(launch *l, const code_panels *p);
codes_params gemm_codes_operand(const code_panels *p, int form);

#endif
