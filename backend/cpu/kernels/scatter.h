#ifndef BACKEND_CPU_KERNELS_SCATTER_H
#define BACKEND_CPU_KERNELS_SCATTER_H
/* Writing at positions that a tensor holds. */
#include "base/kernel.h"

typedef enum kscatter_kind {
  KSCATTER_ASSIGN,
  KSCATTER_ADD,
  KSCATTER_MUL,
  KSCATTER_MAX,
  KSCATTER_MIN
} kscatter_kind;

/* For every position p of index, in its order along `axis`: out[q] = kind(out[q], source[p]), where
 * q is p with p's place on the axis replaced by index[p], which lies in [0, size), or with `wrap`
 * in
 * [-size, size). index and source have equal dims. An index out of range is recorded as a fault and
 * left out. */
void kernel_scatter(const kernel_context *ctx, kscatter_kind kind, int axis, bool wrap,
                    const ktensor *index, const ktensor *source, const ktensor *out);

#endif
