#ifndef BACKEND_CPU_KERNELS_INDEX_H
#define BACKEND_CPU_KERNELS_INDEX_H
/* Reading at positions that tensors hold. An index out of range is recorded as a fault and clamped.
 */
#include "base/kernel.h"

/* out[before..., index..., after...] = x[before..., index, after...]; x is indexed along `axis`.
 * index: I32 or I64, in [0, size). out: contiguous. */
void kernel_index_select(const kernel_context *ctx, const ktensor *x, int axis,
                         const ktensor *index, const ktensor *out);

/* out[i...] = x[i... with index[i...] along axis]; out, contiguous, has index's shape. */
void kernel_gather(const kernel_context *ctx, const ktensor *x, int axis, const ktensor *index,
                   const ktensor *out);

/* Positions taken from several index tensors at once. */
typedef struct index_many {
  int n;                                                  /* indexed axes */
  ktensor index[KERNEL_MAX_RANK];                         /* all with the same, broadcast dims */
  int64_t size[KERNEL_MAX_RANK], stride[KERNEL_MAX_RANK]; /* of each indexed axis of x */
  ktensor x;                                              /* without the indexed axes */
  ktensor out;                          /* of x's remaining dims, with strides in out */
  int64_t out_strides[KERNEL_MAX_RANK]; /* of the index dims in out */
} index_many;
void kernel_index(const kernel_context *ctx,
                  const index_many *p); /* negative indices count from the end */

/* out.data[k] = the k-th position of the index tensors, joined over dimensions of these sizes; i64,
 * contiguous. */
void kernel_ravel_index(const kernel_context *ctx, const index_many *p);

/* The integer at an offset in elements. */
int64_t load_index(const ktensor *index, int64_t offset);

#endif
