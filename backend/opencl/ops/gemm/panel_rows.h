#ifndef BACKEND_OPENCL_OPS_GEMM_PANEL_ROWS_H
#define BACKEND_OPENCL_OPS_GEMM_PANEL_ROWS_H
#include "backend/opencl/opencl.h"

/* Records an IndexSelect of a table that a product also packs. Sets *done if the node is one. */
clave_status opencl_panel_rows(cl_recorder *recorder, const node *node, bool *done) STATUS_CHECK;

#endif
