#ifndef BACKEND_CPU_KERNELS_DEPTHWISE_LANES_H
#define BACKEND_CPU_KERNELS_DEPTHWISE_LANES_H
/* Small planes convolved by themselves, in float: one in each lane of vectors, so that narrow rows
 * fill them, too. */
#include "backend/cpu/kernels/conv_window.h"

enum { DEPTHWISE_LANES = 16 };

/* Whether a part that depthwise_fits is made so: by the processor and the sizes. */
bool depthwise_lanes_fit(const conv_part *a);
/* Of planes [first, first + count) of outputs, count <= DEPTHWISE_LANES, in scratch memory of
 * depthwise_lanes_bytes. False: a weight is not finite, and nothing is done. */
bool depthwise_lanes_run(const conv_part *a, int64_t first, int64_t count, char *scratch);
size_t depthwise_lanes_bytes(const conv_part *a);

#endif
