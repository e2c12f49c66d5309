#ifndef BACKEND_CPU_KERNELS_CONV_DEPTHWISE_LANES_H
#define BACKEND_CPU_KERNELS_CONV_DEPTHWISE_LANES_H
/* Planes convolved by themselves, in float: one in each lane of vectors, so that narrow rows fill
 * them, too, and what a tap sees is aligned. */
#include "backend/cpu/kernels/conv/conv_window.h"

enum { DEPTHWISE_LANES = 16 };

/* Whether a part that depthwise_fits is made so: by the processor, the sizes and the threads. */
bool depthwise_lanes_fit(const conv_part *part, int n_threads);
/* Output rows [row, row + rows) of planes [plane, plane + count) of outputs, count <=
 * DEPTHWISE_LANES, in scratch memory of depthwise_lanes_bytes. False: a weight is not finite, and
 * nothing is done. The kernel of depthwise_kernels.h that does it then takes no scratch memory
 * where planes can lie in lanes. */
bool depthwise_lanes_run(const conv_part *part, int64_t plane, int64_t count, int64_t row,
                         int64_t rows, char *scratch);
size_t depthwise_lanes_bytes(const conv_part *part, int64_t rows);

#endif
