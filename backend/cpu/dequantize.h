#ifndef BACKEND_CPU_DEQUANTIZE_H
#define BACKEND_CPU_DEQUANTIZE_H
#include "backend/cpu/cpu.h"

/* Records an IndexSelect of rows of an encoded constant. */
clave_status cpu_pick_rows(cpu_recorder *recorder, const node *node);

#endif
