#ifndef BACKEND_CPU_SCATTER_H
#define BACKEND_CPU_SCATTER_H
/* Records a scatter, for several ops. */
#include "backend/cpu/cpu.h"
#include "ops/scatter.h"

clave_status cpu_launch_scatter(cpu_recorder *recorder, const scatter_desc *desc) STATUS_CHECK;

#endif
