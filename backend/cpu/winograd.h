#ifndef BACKEND_CPU_WINOGRAD_H
#define BACKEND_CPU_WINOGRAD_H
/* Convolutions by Winograd's method, which a family of variants offers beside the direct one. */
#include "backend/cpu/cpu.h"
#include "ops/conv.h"

/* Rows and columns of outputs of a tile; 0: directly. */
int choose_winograd(cpu_recorder *r, const conv_form *f);
clave_status record_winograd(cpu_recorder *r, const node *n, const conv_form *f,
                             int tile) STATUS_CHECK;

#endif
