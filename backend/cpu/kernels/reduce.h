#ifndef BACKEND_CPU_KERNELS_REDUCE_H
#define BACKEND_CPU_KERNELS_REDUCE_H
/* Reductions. Floats accumulate in double, integers in int64_t. */
#include "base/kernel.h"

typedef enum kreduce_kind {
  KREDUCE_SUM,
  KREDUCE_MEAN,
  KREDUCE_PROD,
  KREDUCE_MAX,
  KREDUCE_MIN,
  KREDUCE_ANY,
  KREDUCE_ALL,
  KREDUCE_VAR,
  KREDUCE_STD,
  KREDUCE_NORM1,
  KREDUCE_NORM2
} kreduce_kind;

/* out: contiguous, one element for each place of `kept`, of x's elements in `over`. */
typedef struct reduce_args {
  kreduce_kind kind;
  ktensor x, out;
  klayout kept, over; /* of x */
  double divisor;     /* of mean, var and std */
} reduce_args;
KERNEL(reduce, reduce_args); /* NaN propagates through max and min */

/* out: contiguous I64, the row-major position in `over` of the first maximum (or minimum); the
 * first NaN wins. */
typedef struct arg_reduce_args {
  bool minimum;
  ktensor x, out;
  klayout kept, over;
} arg_reduce_args;
KERNEL(arg_reduce, arg_reduce_args);

#endif
