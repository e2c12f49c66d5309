#ifndef BACKEND_CPU_KERNELS_CONV_DEPTHWISE_LANES_H
#define BACKEND_CPU_KERNELS_CONV_DEPTHWISE_LANES_H
/* Depthwise convolution in float with one plane per vector lane. So short rows fill vectors, too,
 * and the inputs of a tap are aligned. */
#include "backend/cpu/kernels/conv/conv_window.h"

enum { DEPTHWISE_LANES = 16 };

/* True if this is faster for a phase that depthwise_fits, on this processor and n_threads. */
bool depthwise_lanes_fit(const conv_phase *phase, int n_threads);
/* Computes output rows [row, row + rows) of planes [plane, plane + count), count <=
 * DEPTHWISE_LANES, with depthwise_lanes_bytes of scratch memory. Returns false, and does nothing,
 * if a weight is not finite. The caller then uses depthwise_kernels.h, which needs no scratch
 * memory with AVX-512. */
bool depthwise_lanes_run(const conv_phase *phase, int64_t plane, int64_t count, int64_t row,
                         int64_t rows, char *scratch);
size_t depthwise_lanes_bytes(const conv_phase *phase, int64_t rows);

#endif
