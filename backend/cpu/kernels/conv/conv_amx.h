#ifndef BACKEND_CPU_KERNELS_CONV_CONV_AMX_H
#define BACKEND_CPU_KERNELS_CONV_CONV_AMX_H
/* The convolutions of conv_direct.h that are made by AMX (conv_is_tiled), and transposed ones that
 * conv_amx_takes_transposed accepts. The weight is packed by conv_amx_weight.h. */
#include "backend/cpu/kernels/conv/conv_window.h"

/* Returns true if each output of a transposed convolution sees one input, of which it is one of two
 * columns, and the processor has AMX. Looks at sizes and types alone. */
bool conv_amx_takes_transposed(const conv_args *args);

/* Returns the bytes that conv_amx_run needs, 0 if there are no outputs. */
size_t conv_amx_scratch(const kernel_context *ctx, const conv_args *args);
void conv_amx_run(const kernel_context *ctx, const conv_args *args,
                  char *memory /* (conv_amx_scratch) */);

#endif
