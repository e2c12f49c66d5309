/* LU with partial pivoting, Cholesky, triangular systems: loops over rows, which are contiguous. */
#include <math.h>

#include "backend/cpu/kernels/linalg/matrix.h"

void exchange_rows(double *x, int64_t n, int64_t i, int64_t j) {
  double *a = x + i * n, *b = x + j * n;
  for (int64_t k = 0; i != j && k < n; k++) {
    double t = a[k];
    a[k] = b[k];
    b[k] = t;
  }
}

/* x[i] -= factor * y[i] */
static void subtract_row(int64_t n, double factor, const double *y, double *x) {
  for (int64_t i = 0; i < n; i++) x[i] -= factor * y[i];
}

static double lu_dot(int64_t n, const double *x, const double *y) {
  double sum = 0;
  for (int64_t i = 0; i < n; i++) sum += x[i] * y[i];
  return sum;
}

/* Returns the first row from k on that has the largest element of column k. */
static int64_t pivot_row(const double *x, int64_t m, int64_t n, int64_t k) {
  int64_t best = k;
  for (int64_t i = k + 1; i < m; i++)
    if (fabs(x[i * n + k]) > fabs(x[best * n + k])) best = i;
  return best;
}

int32_t matrix_lu(double *x, int64_t m, int64_t n, int32_t *pivots) {
  int32_t info = 0;
  for (int64_t k = 0; k < m && k < n; k++) {
    int64_t p = pivot_row(x, m, n, k);
    if (pivots) pivots[k] = (int32_t)(p + 1);
    exchange_rows(x, n, k, p);
    const double *row = x + k * n;
    if (row[k] == 0) {
      if (info == 0) info = (int32_t)(k + 1);
      continue;
    }
    for (int64_t i = k + 1; i < m; i++) {
      double *below = x + i * n;
      below[k] /= row[k];
      subtract_row(n - k - 1, below[k], row + k + 1, below + k + 1);
    }
  }
  return info;
}

int32_t matrix_cholesky(double *x, int64_t n) {
  for (int64_t i = 0; i < n; i++) {
    double *row = x + i * n;
    for (int64_t j = 0; j < i; j++) {
      const double *other = x + j * n;
      row[j] = (row[j] - lu_dot(j, row, other)) / other[j];
    }
    double pivot = row[i] - lu_dot(i, row, row);
    if (!(pivot > 0)) return (int32_t)(i + 1);
    row[i] = sqrt(pivot);
  }
  return 0;
}

void matrix_solve_triangular(const double *a, int64_t m, bool upper, bool unit, double *x,
                             int64_t n) {
  for (int64_t stride = 0; stride < m; stride++) {
    int64_t i = upper ? m - 1 - stride : stride;
    const double *row = a + i * m;
    double *to = x + i * n;
    for (int64_t j = upper ? i + 1 : 0; j < (upper ? m : i); j++)
      subtract_row(n, row[j], x + j * n, to);
    for (int64_t c = 0; !unit && c < n; c++) to[c] /= row[i];
  }
}
