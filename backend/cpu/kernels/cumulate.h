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

/* indices: I64, only of extremes, absent if not wanted. An element is the position of the extreme
 * so far, the last of equal ones. NaN is more extreme than any number. */
typedef struct cumulate_args {
  kcumulate_kind kind;
  ktensor x, out, indices; /* (*, row) of n_rows rows; out and indices have equal strides */
  int64_t n_rows, row;
} cumulate_args;
KERNEL(cumulate, cumulate_args);

#endif
