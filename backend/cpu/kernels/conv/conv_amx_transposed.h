#ifndef BACKEND_CPU_KERNELS_CONV_CONV_AMX_TRANSPOSED_H
#define BACKEND_CPU_KERNELS_CONV_CONV_AMX_TRANSPOSED_H
/* Rounded transposed convolutions by AMX whose outputs see one input each, of which they are two
 * columns: a group of an image is the product of a weight of all elements of the kernel with the
 * planes as they lie. */
#include "backend/cpu/kernels/conv/conv_window.h"

/* Whether one may be, by its sizes and the processor alone. */
bool conv_is_spread(const conv_args *p);
size_t spread_tiles_packed_bytes(const conv_args *p);
void spread_tiles_pack(const kernel_context *ctx, const conv_args *p, char *to);

size_t spread_tiles_scratch(const kernel_context *ctx, const conv_args *p);
void spread_tiles_run(const kernel_context *ctx, const conv_args *p,
                      char *memory /* (spread_tiles_scratch) */);

#endif
