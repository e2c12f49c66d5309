#ifndef BACKEND_CPU_KERNELS_CONV_CONV_AMX_PLANES_H
#define BACKEND_CPU_KERNELS_CONV_CONV_AMX_PLANES_H
/* conv_direct.h's convolutions by AMX: where conv_is_tiled and not conv_is_by_rows. */
#include "backend/cpu/kernels/conv/conv_window.h"

size_t direct_tiles_scratch(const kernel_context *ctx, const conv_args *p);
void direct_tiles_run(const kernel_context *ctx, const conv_args *p,
                      char *memory /* (direct_tiles_scratch) */);

#endif
