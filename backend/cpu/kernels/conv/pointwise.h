#ifndef BACKEND_CPU_KERNELS_CONV_POINTWISE_H
#define BACKEND_CPU_KERNELS_CONV_POINTWISE_H
/* Convolutions in float whose outputs each read one input, at the same position. Per group and
 * image they are the product of the packed weight with the planes in place. */
#include "backend/cpu/kernels/conv/conv_window.h"
#include "backend/cpu/kernels/gemm/gemm.h"

/* True if a phase is such a convolution. The result depends on sizes and dtypes only. */
bool pointwise_fits(const conv_phase *phase);
/* True if the planes fill a tile of this processor, which pointwise_run requires. */
bool pointwise_fills_a_tile(const conv_phase *phase);
/* kgemm: the phase as a product of gemm.c; its packed_a is used. In rounded phases k counts words.
 * Only rounded phases need memory. */
size_t pointwise_bytes(const kernel_context *ctx, const conv_phase *phase, const kgemm *kgemm);
void pointwise_run(const kernel_context *ctx, const conv_phase *phase, const kgemm *kgemm,
                   char *memory /* (pointwise_bytes) */);

#endif
