#ifndef BACKEND_OPENCL_OPS_GEMM_GEMM_CODES_H
#define BACKEND_OPENCL_OPS_GEMM_GEMM_CODES_H
/* Products with an encoded b that is packed in panels of codes. CPUs multiply float rows by them;
 * all devices multiply rounded rows (gemm_dots.h). */
#include "backend/opencl/ops/gemm/gemm.h"
#include "base/code_panels.h"

/* Returns true if b is a constant that can be packed in panels of codes, and sets *panels to the
 * layout. */
bool gemm_codes_of(const gemm *gemm, code_panels *panels);
/* Like gemm_codes_of, but true only if the device has kernels for float rows and such panels. */
bool gemm_codes_usable(const gemm *gemm, code_panels *panels);
bool gemm_codes_few(const gemm *gemm); /* true if there are few enough rows for gemm_codes_rows */
clave_status gemm_codes_rows(const gemm *gemm, const code_panels *panels) STATUS_CHECK;

/* Packs b for all kernels that include codes.h. Sets *number to the number of the packed weight. */
clave_status gemm_pack_codes(const gemm *gemm, const code_panels *panels, int *number) STATUS_CHECK;
void gemm_codes_define(launch *launch, const code_panels *panels);
codes_params gemm_codes_operand(const code_panels *panels, int packed);

#endif
