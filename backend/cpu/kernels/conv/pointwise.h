#ifndef BACKEND_CPU_KERNELS_CONV_POINTWISE_H
#define BACKEND_CPU_KERNELS_CONV_POINTWISE_H
/* Convolutions in float whose outputs see one input each, at their own position: of a group and an
 * image the product of the packed weight with the planes as they lie. */
#include "backend/cpu/kernels/conv/conv_window.h"
#include "backend/cpu/kernels/gemm/gemm.h"

/* True if a part is one, by sizes and dtypes alone. */
bool pointwise_fits(const conv_part *part);
/* True if the planes are as wide as the tiles of this processor, which pointwise_run needs. */
bool pointwise_fills_a_tile(const conv_part *part);
/* kgemm: the part as gemm.c's product, whose packed_a is read; of rounded ones k counts words. The
 * memory is needed for those alone. */
size_t pointwise_bytes(const kernel_context *ctx, const conv_part *part, const kgemm *kgemm);
void pointwise_run(const kernel_context *ctx, const conv_part *part, const kgemm *kgemm,
                   char *memory /* (pointwise_bytes) */);

#endif
