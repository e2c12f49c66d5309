#ifndef BACKEND_CPU_KERNELS_REDUCE_H
#define BACKEND_CPU_KERNELS_REDUCE_H
/* Reductions. Floats accumulate in double, integers in int64_t. */
#include "backend/cpu/kernels/reduce_kind.h"
#include "base/kernel.h"

/* out: contiguous; for each place of `kept`, the reduction of x over the places of `over`. */
typedef struct reduce_args {
  kreduce_kind kind;
  ktensor x, out;
  klayout kept, over; /* dims and strides of x */
  double divisor;     /* divisor for mean, var and std */
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
