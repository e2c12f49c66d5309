#ifndef BACKEND_CPU_KERNELS_CONV_CONV_AMX_H
#define BACKEND_CPU_KERNELS_CONV_CONV_AMX_H
/* Convolutions of conv_direct.h that run on AMX (conv_is_tiled), and transposed ones that
 * conv_amx_accepts_transposed accepts. conv_amx_weight.h describes the packed weight. */
#include "backend/cpu/kernels/conv/conv_window.h"

/* Returns true if a transposed convolution has disjoint 2-column windows, so that each output
 * depends on one input, and the processor has AMX. Depends on sizes and types only. */
bool conv_amx_accepts_transposed(const conv_args *args);

/* Returns the bytes that conv_amx_run needs, 0 if there are no outputs. */
size_t conv_amx_scratch(const kernel_context *ctx, const conv_args *args);
void conv_amx_run(const kernel_context *ctx, const conv_args *args,
                  char *memory /* (conv_amx_scratch) */);

#endif
