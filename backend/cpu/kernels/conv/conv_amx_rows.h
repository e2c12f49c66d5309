#ifndef BACKEND_CPU_KERNELS_CONV_CONV_AMX_ROWS_H
#define BACKEND_CPU_KERNELS_CONV_CONV_AMX_ROWS_H
/* conv_direct.h's convolutions by AMX of few channels: where conv_is_tiled and conv_is_by_rows. */
#include "backend/cpu/kernels/conv/conv_window.h"

size_t row_tiles_scratch(const kernel_context *ctx, const conv_args *p);
void row_tiles_run(const kernel_context *ctx, const conv_args *p,
                   char *memory /* (row_tiles_scratch) */);

#endif
