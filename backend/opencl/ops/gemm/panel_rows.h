#ifndef BACKEND_OPENCL_OPS_GEMM_PANEL_ROWS_H
#define BACKEND_OPENCL_OPS_GEMM_PANEL_ROWS_H
#include "backend/opencl/opencl.h"

/* An IndexSelect of a table that a product packs on this device, too. *done: it was one. */
clave_status opencl_panel_rows(cl_recorder *recorder, const node *node, bool *done) STATUS_CHECK;

#endif
