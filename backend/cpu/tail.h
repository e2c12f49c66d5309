#ifndef BACKEND_CPU_TAIL_H
#define BACKEND_CPU_TAIL_H
/* Epilogues that kernels of convolutions run themselves. */
#include "backend/cpu/cpu.h"
#include "backend/cpu/kernels/conv_tail.h"

/* The node's epilogue, where it is a sum with a tensor like the result, limits, or both, in F32:
 * the recorder is told that nothing is left of it. Else conv_tail_none. */
conv_tail take_tail(cpu_recorder *r, const node *n);

#endif
