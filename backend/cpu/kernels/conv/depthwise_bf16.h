#ifndef BACKEND_CPU_KERNELS_CONV_DEPTHWISE_BF16_H
#define BACKEND_CPU_KERNELS_CONV_DEPTHWISE_BF16_H
/* depthwise_kernels.h's strips of planes that are kept as BF16 (bf16.h): by AVX-512 BF16, without
 * which nothing is. */
#include "backend/cpu/kernels/conv/depthwise_kernels.h"

/* Nothing is added; `copied` is not used. */
void depthwise_bf16_run(const depthwise_strip *strip, int64_t side, int64_t stride);

#endif
