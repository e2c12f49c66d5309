#ifndef BACKEND_CPU_KERNELS_ROPE_H
#define BACKEND_CPU_KERNELS_ROPE_H
/* Rotary position embedding. */
#include "base/kernel.h"

/* x: (..., L, n_heads, head_dim), last stride 1; cos, sin: (L, head_dim / 2) contiguous; out:
 * contiguous. Turns the pair (a, b) into (a cos - b sin, b cos + a sin); pairs are (2i, 2i + 1) if
 * interleaved, else (i, i + head_dim / 2). */
void kernel_rope(const kernel_context *ctx, const ktensor *x, const ktensor *cos,
                 const ktensor *sin, bool interleaved, const ktensor *out);

#endif
