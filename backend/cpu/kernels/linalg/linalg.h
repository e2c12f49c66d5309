#ifndef BACKEND_CPU_KERNELS_LINALG_LINALG_H
#define BACKEND_CPU_KERNELS_LINALG_LINALG_H
/* Factorisations of each matrix of a batch, and triangular systems. Floats, computed in double. */
#include "base/kernel.h"

typedef enum klinalg_kind {
  KLINALG_LU,
  KLINALG_CHOLESKY,
  KLINALG_QR,
  KLINALG_EIGH,
  KLINALG_SVD,
  KLINALG_EXP
} klinalg_kind;

/* Arguments of the linalg kernel; Linalg in serialize/schema.fbs defines out, b and c. */
typedef struct linalg_args {
  klinalg_kind kind;
  bool upper;
  ktensor x;         /* (batches, m, n), in fewer or more dimensions; all operands are contiguous */
  ktensor out, b, c; /* b, c: may be absent */
  ktensor info;      /* (batches), I32; may be absent */
  int64_t batches, m, n;
} linalg_args;
KERNEL(linalg, linalg_args);

/* out = a^-1 b. */
typedef struct triangular_solve_args {
  ktensor a;      /* (batches, m, m) */
  ktensor b, out; /* (batches, m, n) */
  int64_t batches, m, n;
  bool upper, unit;
} triangular_solve_args;
KERNEL(triangular_solve, triangular_solve_args);

/* A pivot that is not a row number is recorded as a fault and skipped. */
typedef struct pivot_order_args {
  ktensor pivots; /* (batches, k), I32 */
  ktensor out;    /* (batches, m), I64 */
  int64_t batches, k, m;
} pivot_order_args;
KERNEL(pivot_order, pivot_order_args);

#endif
