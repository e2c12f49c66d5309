#ifndef BACKEND_CPU_KERNELS_CUMULATE_H
#define BACKEND_CPU_KERNELS_CUMULATE_H
/* Running sums, products, extremes and logarithms of sums of exponentials along the last dimension.
 * Floats accumulate in double, integers in int64_t (they wrap). */
#include "base/kernel.h"

typedef enum kcumulate_kind {
  KCUMULATE_SUM,
  KCUMULATE_PROD,
  KCUMULATE_MAX,
  KCUMULATE_MIN,
  KCUMULATE_LOGSUMEXP
} kcumulate_kind;

/* out: of x's shape. indices (extremes; NULL: not wanted): I64, where the extreme so far stands,
 * the last of equal ones; NaN stays. */
void kernel_cumulate(const kernel_context *ctx, kcumulate_kind kind, const ktensor *x,
                     const ktensor *out, const ktensor *indices);

#endif
