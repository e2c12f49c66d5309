#ifndef BACKEND_CPU_KERNELS_LINALG_MATRIX_H
#define BACKEND_CPU_KERNELS_LINALG_MATRIX_H
/* Factorisations of one row-major matrix of doubles, in place, for the linalg kernel. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ---- lu.c ---- */

/* Computes x = P L U of x (m, n): replaces x by U and, below the diagonal, L. pivots: NULL, or
 * (min(m, n)), the number from 1 of the row with which each row was exchanged. Returns 0, or the
 * number of the first pivot that is 0, from 1. */
int32_t matrix_lu(double *x, int64_t m, int64_t n, int32_t *pivots);
/* Replaces the lower triangle of x (n, n) by L, where x = L L^T; the upper triangle is not read.
 * Returns 0, or the number, from 1, of the first pivot that is not positive, where it stops. */
int32_t matrix_cholesky(double *x, int64_t n);
/* Replaces x (m, n) by a^-1 x for a triangular a (m, m). */
void matrix_solve_triangular(const double *a, int64_t m, bool upper, bool unit, double *x,
                             int64_t n);
void exchange_rows(double *x, int64_t n, int64_t i, int64_t j);

/* ---- householder.c ---- */

/* Computes x = Q R of x (m, n): replaces x by R and, below the diagonal, the vectors of k = min(m,
 * n) reflections I - tau v v^T, whose first elements are 1. work: (n). */
void matrix_qr(double *x, int64_t m, int64_t n, double *tau /* (k) */, double *work);
/* Computes the first j columns of Q, (m, j), from the reflections in x. work: (j). */
void matrix_q(const double *x, int64_t m, int64_t n, const double *tau, double *q, int64_t j,
              double *work);

/* ---- jacobi.c ---- */

/* Computes the eigenvalues (n), ascending, of a symmetric x (n, n), which is destroyed. vectors:
 * (n, n), one per row; may be NULL. */
void matrix_eigh(double *x, int64_t n, double *values, double *vectors);
/* Computes the singular values (k), descending, of w (k, l), k <= l, and w = left^T diag(values)
 * right. The first k rows of w are replaced by those of `right`. If w has more rows, up to `rows`,
 * these complete them to an orthonormal basis. left: (k, k). */
void matrix_svd(double *w, int64_t k, int64_t l, int64_t rows, double *values, double *left);

/* ---- matrix_exp.c ---- */

/* Returns the number of doubles in matrix_exp's work. */
size_t matrix_exp_work(int64_t n);
/* Replaces x (n, n) by its exponential. */
void matrix_exp(double *x, int64_t n, double *work);

/* ---- all ---- */

static inline bool all_finite(const double *x, int64_t n) {
  double sum = 0; /* sum of zeros, unless an element is not finite */
  for (int64_t i = 0; i < n; i++) sum += x[i] * 0;
  return sum == 0;
}

#endif
