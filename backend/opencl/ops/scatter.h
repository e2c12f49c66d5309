#ifndef BACKEND_OPENCL_OPS_SCATTER_H
#define BACKEND_OPENCL_OPS_SCATTER_H
/* The scatter kernel that several ops use. */
#include "backend/opencl/ops/families.h"
#include "ops/scatter.h"

clave_status launch_scatter(cl_recorder *recorder, const node *node,
                            const scatter_desc *desc) STATUS_CHECK;

#endif
