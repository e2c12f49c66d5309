#ifndef BACKEND_CPU_KERNELS_ACCUMULATORS_H
#define BACKEND_CPU_KERNELS_ACCUMULATORS_H
/* Accumulators of reductions: one output over blocks of its elements, or a row of outputs element
 * by element. */
#include "backend/cpu/kernels/reduce_kind.h"
#include "backend/cpu/kernels/support/rows.h"

/* The state of one output. f: the sum, product or extreme, or for var the sum of squared
 * differences from `mean`. i: the same for integers. n: number of elements so far. */
typedef struct accumulator {
  double f, mean;
  int64_t i, n;
} accumulator;

/* Returns the state before any element. */
accumulator accumulator_start(kreduce_kind kind);
/* Adds x (n), double or int64_t according to `c`, n <= ROW_BLOCK. */
void accumulate_block(kreduce_kind kind, compute_type c, accumulator *accumulator, const void *x,
                      int64_t n);
/* Returns the sum of n floats, with the same bits as accumulate_block computes block by block. */
double accumulate_floats(const float *x, int64_t n);
/* Adds the elements of `other` to `into`. */
void accumulate_other(kreduce_kind kind, accumulator *into, const accumulator *other);
/* Stores the result as element 0 of `to`. */
void accumulator_store(kreduce_kind kind, compute_type c, const accumulator *accumulator,
                       double divisor, dtype t, void *to);

/* Adds x[k] to accumulator[k] for k < n. */
void accumulate_lanes(kreduce_kind kind, compute_type c, accumulator *accumulator, const void *x,
                      int64_t n);

#endif
