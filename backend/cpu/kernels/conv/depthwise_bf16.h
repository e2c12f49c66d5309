#ifndef BACKEND_CPU_KERNELS_CONV_DEPTHWISE_BF16_H
#define BACKEND_CPU_KERNELS_CONV_DEPTHWISE_BF16_H
/* Strips of depthwise_kernels.h on planes that are kept as BF16 (bf16.h). Requires AVX-512 BF16;
 * without it no plane is kept as BF16. */
#include "backend/cpu/kernels/conv/depthwise_kernels.h"

/* epilogue.added must be NULL. `copied` is not used. */
void depthwise_bf16_run(const depthwise_strip *strip, int64_t side, int64_t stride);

#endif
