#ifndef BACKEND_CPU_KERNELS_CONV_POINTWISE_H
#define BACKEND_CPU_KERNELS_CONV_POINTWISE_H
/* Convolutions in float whose outputs each read one input, at the same position. Per group and
 * image they are the product of the packed weight with the planes in place. */
#include "backend/cpu/kernels/conv/conv_window.h"
#include "backend/cpu/kernels/gemm/gemm.h"

/* True if a part is such a convolution; depends on sizes and dtypes only. */
bool pointwise_fits(const conv_part *part);
/* True if the planes fill a tile of this processor, which pointwise_run requires. */
bool pointwise_fills_a_tile(const conv_part *part);
/* kgemm: the part as a product of gemm.c, whose packed_a is used. For rounded parts k counts words.
 * Only rounded parts need memory. */
size_t pointwise_bytes(const kernel_context *ctx, const conv_part *part, const kgemm *kgemm);
void pointwise_run(const kernel_context *ctx, const conv_part *part, const kgemm *kgemm,
                   char *memory /* (pointwise_bytes) */);

#endif
