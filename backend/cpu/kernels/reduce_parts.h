#ifndef BACKEND_CPU_KERNELS_REDUCE_PARTS_H
#define BACKEND_CPU_KERNELS_REDUCE_PARTS_H
/* Accumulators of reductions: one output over blocks of its elements, or a row of outputs element
 * by element. */
#include "backend/cpu/kernels/reduce_kind.h"
#include "backend/cpu/kernels/support/rows.h"

/* State of one output. f: sum, product, extreme, or (var) the sum of squared differences from
 * `mean`; i: the same for integers; n: elements seen. */
typedef struct accumulator {
  double f, mean;
  int64_t i, n;
} accumulator;

/* Returns the state before any element. */
accumulator accumulator_start(kreduce_kind kind);
/* Adds x (n), double or int64_t according to `c`, n <= ROW_BLOCK. */
void accumulate_block(kreduce_kind kind, compute_class c, accumulator *accumulator, const void *x,
                      int64_t n);
/* Returns the sum of n floats with the bits that accumulate_block yields over their blocks. */
double accumulate_floats(const float *x, int64_t n);
/* Adds the elements that `other` has seen. */
void accumulate_other(kreduce_kind kind, accumulator *into, const accumulator *other);
/* Stores the result as element 0 of `to`. */
void accumulator_store(kreduce_kind kind, compute_class c, const accumulator *accumulator,
                       double divisor, dtype t, void *to);

/* Adds element x[k] to accumulator accumulator[k] for k < n. */
void accumulate_lanes(kreduce_kind kind, compute_class c, accumulator *accumulator, const void *x,
                      int64_t n);

#endif
