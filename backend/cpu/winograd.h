#ifndef BACKEND_CPU_WINOGRAD_H
#define BACKEND_CPU_WINOGRAD_H
/* Records convolutions by Winograd's method. */
#include "backend/cpu/cpu.h"
#include "ops/conv.h"

/* tile: rows and columns of an output tile, 2 or 4 */
clave_status record_winograd(cpu_recorder *recorder, const node *node, const conv_desc *desc,
                             int tile) STATUS_CHECK;

#endif
