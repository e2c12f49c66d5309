#ifndef BACKEND_CPU_TAIL_H
#define BACKEND_CPU_TAIL_H
/* Epilogues that kernels of convolutions and products run themselves. */
#include "backend/cpu/cpu.h"
#include "backend/cpu/kernels/conv/conv_tail.h"
#include "backend/cpu/kernels/elementwise/step_rows.h"

/* The node's epilogue, of a result in F32: in `tail` where it is a sum with a tensor like the
 * result, limits, or both, else in `steps` where it is short and has at most `most_inputs` inputs,
 * the result among them. The recorder is told then that nothing is left of it. Else conv_tail_none
 * and no steps. */
void take_tail(cpu_recorder *recorder, const node *node, int most_inputs, conv_tail *tail,
               short_elementwise_args *steps);
/* The same of what has no tail: all of it in `steps`. */
void take_steps(cpu_recorder *recorder, const node *node, int most_inputs,
                short_elementwise_args *steps);
/* Whether what follows reads a slot. */
bool tail_reads(const node *node, uint32_t slot);

#endif
