/* QR by Householder reflections, with LAPACK's signs: a column that is 0 below the diagonal is not
 * reflected, others get the sign without cancellation. */
#include <math.h>

#include "backend/cpu/kernels/linalg/matrix.h"

/* Returns the 2-norm of n elements, `stride` apart. Scaling avoids overflow and underflow. */
static double column_norm(const double *x, int64_t n, int64_t stride) {
  double most = 0, sum = 0;
  for (int64_t i = 0; i < n; i++) {
    double v = fabs(x[i * stride]);
    if (!(v <= most)) most = v;
  }
  if (most == 0 || !isfinite(most)) return most;
  for (int64_t i = 0; i < n; i++) sum += x[i * stride] / most * (x[i * stride] / most);
  return most * sqrt(sum);
}

/* Computes the reflection that zeroes column k below the diagonal and stores it there. Returns
 * tau. */
static double make_reflection(double *x, int64_t m, int64_t n, int64_t k) {
  double *column = x + k * n + k;
  int64_t below = m - k - 1;
  double norm = column_norm(column + n, below, n), alpha = *column;
  if (norm == 0) return 0;
  double beta = -copysign(hypot(alpha, norm), alpha);
  for (int64_t i = 1; i <= below; i++) column[i * n] /= alpha - beta;
  *column = beta;
  return (beta - alpha) / beta;
}

/* Reflects the rows of y (m, n) from row k on, in the columns from `from` on. The vector of the
 * reflection is stored below element (k, k) of x. work: (n). */
static void householder_reflect(const double *x, int64_t x_stride, double tau, int64_t m, int64_t k,
                                double *y, int64_t n, int64_t from, double *work) {
  if (tau == 0) return;
  for (int64_t j = from; j < n; j++) work[j] = y[k * n + j];
  for (int64_t i = k + 1; i < m; i++)
    for (int64_t j = from; j < n; j++) work[j] += x[i * x_stride + k] * y[i * n + j];
  for (int64_t j = from; j < n; j++) y[k * n + j] -= tau * work[j];
  for (int64_t i = k + 1; i < m; i++)
    for (int64_t j = from; j < n; j++) y[i * n + j] -= tau * x[i * x_stride + k] * work[j];
}

void matrix_qr(double *x, int64_t m, int64_t n, double *tau, double *work) {
  for (int64_t k = 0; k < m && k < n; k++) {
    tau[k] = make_reflection(x, m, n, k);
    householder_reflect(x, n, tau[k], m, k, x, n, k + 1, work);
  }
}

void matrix_q(const double *x, int64_t m, int64_t n, const double *tau, double *q, int64_t j,
              double *work) {
  for (int64_t i = 0; i < m; i++)
    for (int64_t c = 0; c < j; c++) q[i * j + c] = i == c;
  for (int64_t k = (m < n ? m : n) - 1; k >= 0; k--)
    householder_reflect(x, n, tau[k], m, k, q, j, 0, work);
}
