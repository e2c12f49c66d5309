#ifndef BACKEND_OPENCL_OPS_GEMM_PANEL_ROWS_H
#define BACKEND_OPENCL_OPS_GEMM_PANEL_ROWS_H
#include "backend/opencl/opencl.h"

/* Records the node and sets *done if it is an IndexSelect of a table that a product also packs. */
clave_status opencl_panel_rows(cl_recorder *recorder, const node *node, bool *done) STATUS_CHECK;

#endif
