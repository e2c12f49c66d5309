#ifndef BACKEND_CPU_KERNELS_COPY_H
#define BACKEND_CPU_KERNELS_COPY_H
/* Copies between strided layouts of the same shape and dtype. */
#include "base/kernel.h"

/* out[...] = x[...]. Both may have any strides, but out's elements must be distinct. If the dtype
 * is F32, one of them may be stored as BF16 (bf16.h). */
typedef struct copy_args {
  ktensor x, out; /* equal dims */
} copy_args;
KERNEL(copy, copy_args);

/* copy_piece and copy_row copy small pieces on the calling thread: `size` bytes per element,
 * strides in elements. */
void copy_piece(size_t size, int rank, const int64_t *dims, const void *from,
                const int64_t *from_strides, void *to, const int64_t *to_strides);
void copy_row(size_t size, int64_t n, const void *from, int64_t from_stride, void *to,
              int64_t to_stride);
/* Writes the element at `value` n times. */
void fill_row(size_t size, int64_t n, const void *value, void *to, int64_t to_stride);

#endif
