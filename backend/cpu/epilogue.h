#ifndef BACKEND_CPU_EPILOGUE_H
#define BACKEND_CPU_EPILOGUE_H
/* Finds epilogues that the kernels of convolutions and products can apply themselves. */
#include "backend/cpu/cpu.h"
#include "backend/cpu/kernels/conv/conv_epilogue.h"
#include "backend/cpu/kernels/elementwise/step_rows.h"

/* The shape of results (images, channels, cells) whose kernel supports conv_epilogue.slope. */
typedef struct epilogue_shape {
  int64_t channels, cells; /* channels: 0 if the kernel does not support it */
} epilogue_shape;

/* Converts the node's epilogue of an F32 result. If it only adds a tensor of the result's shape,
 * has slopes per channel, and clamps, or some of these, sets `epilogue`. Otherwise, if it is short
 * and has at most `max_inputs` inputs including the result, sets `steps`. In both cases calls
 * cpu_accepts_epilogue. Otherwise `epilogue` is conv_epilogue_none and `steps` is empty. */
void fuse_epilogue(cpu_recorder *recorder, const node *node, epilogue_shape shape, int max_inputs,
                   conv_epilogue *epilogue, short_elementwise_args *steps);
/* Like fuse_epilogue, for kernels without a conv_epilogue: sets `steps` for every short
 * epilogue. */
void fuse_steps(cpu_recorder *recorder, const node *node, int max_inputs,
                short_elementwise_args *steps);
/* Returns true if the node's epilogue reads a slot. */
bool epilogue_reads(const node *node, uint32_t slot);

#endif
