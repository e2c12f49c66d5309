#ifndef BACKEND_CPU_KERNELS_PAD_H
#define BACKEND_CPU_KERNELS_PAD_H
/* Padding at both ends of every dimension. */
#include "base/kernel.h"

typedef enum kpad_mode { KPAD_CONSTANT, KPAD_REFLECT, KPAD_REPLICATE, KPAD_CIRCULAR } kpad_mode;

/* out[i] = x[i - before] per dimension; outside of x, `value` (an element of x's dtype) or what the
 * mode says. before may be negative in constant mode. out: contiguous, of x's rank. */
void kernel_pad(const kernel_context *ctx, const ktensor *x, const int64_t *before, kpad_mode mode,
                const void *value, const ktensor *out);

#endif
