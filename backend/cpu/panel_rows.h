#ifndef BACKEND_CPU_PANEL_ROWS_H
#define BACKEND_CPU_PANEL_ROWS_H
#include "ops/dequantize.h"

#include "backend/cpu/cpu.h"

/* Records an IndexSelect that describe_panel_rows has described. */
clave_status cpu_panel_rows(cpu_recorder *recorder, const dequantize_desc *desc,
                            const bound_tensor *as_b);

#endif
