/* Eigenvalues of symmetric matrices and singular values by Jacobi rotations: sweeps over all pairs
 * until no rotation is significant. Convergence is quadratic. Results are accurate to the last
 * bits, even if values are close together or differ widely. */
#include <float.h>
#include <math.h>

#include "backend/cpu/kernels/linalg/matrix.h"

enum { MAX_SWEEPS = 60 /* ten would already be many */ };

static double jacobi_dot(int64_t n, const double *x, const double *y) {
  double sum = 0;
  for (int64_t i = 0; i < n; i++) sum += x[i] * y[i];
  return sum;
}

/* Rotates elements `stride` apart: (x, y) = (c x - s y, s x + c y). */
static void jacobi_rotate(int64_t n, double *x, double *y, int64_t stride, double c, double s) {
  for (int64_t i = 0; i < n; i++) {
    double a = x[i * stride], b = y[i * stride];
    x[i * stride] = c * a - s * b;
    y[i * stride] = s * a + c * b;
  }
}

/* Finds the rotation that zeroes the off-diagonal element of ((a, g), (g, b)). */
static void find_rotation(double a, double b, double g, double *c, double *s) {
  double zeta = (b - a) / (2 * g);
  double t = copysign(1, zeta) / (fabs(zeta) + hypot(1, zeta));
  *c = 1 / sqrt(1 + t * t);
  *s = *c * t;
}

static void set_identity(double *x, int64_t n) {
  for (int64_t i = 0; i < n * n; i++) x[i] = i % (n + 1) == 0;
}

static void jacobi_fill(double *x, int64_t n, double value) {
  for (int64_t i = 0; i < n; i++) x[i] = value;
}

/* Sorts the values (sign 1: ascending, -1: descending), together with the rows of two matrices,
 * each of which may be NULL. */
static void order_values(int64_t n, double sign, double *values, double *a, int64_t a_size,
                         double *b, int64_t b_size) {
  for (int64_t i = 0; i < n; i++) {
    int64_t best = i;
    for (int64_t j = i + 1; j < n; j++)
      if (sign * values[j] < sign * values[best]) best = j;
    double t = values[i];
    values[i] = values[best];
    values[best] = t;
    if (a) exchange_rows(a, a_size, i, best);
    if (b) exchange_rows(b, b_size, i, best);
  }
}

/* ---------------------------------------------------------------- eigenvalues */

/* Rotates all pairs once. Returns true if any pair was rotated. */
static bool sweep_symmetric(double *x, int64_t n, double least, double *vectors) {
  bool any = false;
  for (int64_t p = 0; p < n; p++)
    for (int64_t q = p + 1; q < n; q++) {
      double g = x[p * n + q], c, s;
      if (fabs(g) <= least) continue;
      find_rotation(x[p * n + p], x[q * n + q], g, &c, &s);
      jacobi_rotate(n, x + p * n, x + q * n, 1, c, s);
      jacobi_rotate(n, x + p, x + q, n, c, s);
      x[p * n + q] = x[q * n + p] = 0;
      if (vectors) jacobi_rotate(n, vectors + p * n, vectors + q * n, 1, c, s);
      any = true;
    }
  return any;
}

static double largest(const double *x, int64_t n) {
  double most = 0;
  for (int64_t i = 0; i < n; i++)
    if (fabs(x[i]) > most) most = fabs(x[i]);
  return most;
}

static void jacobi_scale(double *x, int64_t n, double factor) {
  for (int64_t i = 0; i < n; i++) x[i] *= factor;
}

/* Returns a power of 2 near 1 / most, so that scaling by it and back is exact. */
static double scale_for(double most) {
  if (most == 0) return 1;
  int e;
  frexp(most, &e);
  return ldexp(1, e < -1000 ? 1000 : -e);
}

void matrix_eigh(double *x, int64_t n, double *values, double *vectors) {
  if (vectors) set_identity(vectors, n);
  if (!all_finite(x, n * n)) {
    jacobi_fill(values, n, NAN);
    if (vectors) jacobi_fill(vectors, n * n, NAN);
    return;
  }
  double factor = scale_for(largest(x, n * n));
  jacobi_scale(x, n * n, factor);
  double least = DBL_EPSILON / 64 * sqrt(jacobi_dot(n * n, x, x)) / (double)(n > 0 ? n : 1);
  for (int sweep = 0; sweep < MAX_SWEEPS && sweep_symmetric(x, n, least, vectors); sweep++)
    continue;
  for (int64_t i = 0; i < n; i++) values[i] = x[i * n + i] / factor;
  order_values(n, 1, values, vectors, n, NULL, 0);
}

/* ---------------------------------------------------------------- singular values */

/* Orthogonalises rows of w by rotations, accumulated in left. Returns true if any was rotated. */
static bool sweep_rows(double *w, int64_t k, int64_t l, double *left) {
  bool any = false;
  double least = DBL_EPSILON * sqrt((double)l); /* rounding error of a product that is 0 */
  for (int64_t p = 0; p < k; p++)
    for (int64_t q = p + 1; q < k; q++) {
      double *x = w + p * l, *y = w + q * l, c, s;
      double a = jacobi_dot(l, x, x), b = jacobi_dot(l, y, y), g = jacobi_dot(l, x, y);
      if (fabs(g) <= least * sqrt(a) * sqrt(b)) continue;
      find_rotation(a, b, g, &c, &s);
      jacobi_rotate(l, x, y, 1, c, s);
      jacobi_rotate(k, left + p * k, left + q * k, 1, c, s);
      any = true;
    }
  return any;
}

/* Returns the unit vector that is furthest from the span of n orthonormal rows. */
static int64_t furthest_unit(const double *rows, int64_t n, int64_t l) {
  int64_t best = 0;
  double least = INFINITY;
  for (int64_t i = 0; i < l; i++) {
    double within = 0;
    for (int64_t j = 0; j < n; j++) within += rows[j * l + i] * rows[j * l + i];
    if (within < least) {
      least = within;
      best = i;
    }
  }
  return best;
}

/* Sets row n of w to a vector of length 1 that is orthogonal to the n rows before it. */
static void add_orthonormal(double *w, int64_t n, int64_t l) {
  double *row = w + n * l;
  int64_t unit = furthest_unit(w, n, l);
  for (int64_t i = 0; i < l; i++) row[i] = i == unit;
  for (int again = 0; again < 2; again++)
    for (int64_t j = 0; j < n; j++) {
      double component = jacobi_dot(l, row, w + j * l);
      for (int64_t i = 0; i < l; i++) row[i] -= component * w[j * l + i];
    }
  jacobi_scale(row, l, 1 / sqrt(jacobi_dot(l, row, row)));
}

void matrix_svd(double *w, int64_t k, int64_t l, int64_t rows, double *values, double *left) {
  if (!all_finite(w, k * l)) {
    jacobi_fill(values, k, NAN);
    jacobi_fill(left, k * k, NAN);
    jacobi_fill(w, rows * l, NAN);
    return;
  }
  set_identity(left, k);
  double factor = scale_for(largest(w, k * l));
  jacobi_scale(w, k * l, factor);
  for (int sweep = 0; sweep < MAX_SWEEPS && sweep_rows(w, k, l, left); sweep++) continue;
  for (int64_t i = 0; i < k; i++) values[i] = sqrt(jacobi_dot(l, w + i * l, w + i * l));
  order_values(k, -1, values, w, l, left, k);
  int64_t rank = 0;
  while (rank < k && values[rank] > DBL_MIN) rank++;
  for (int64_t i = 0; i < rank; i++) jacobi_scale(w + i * l, l, 1 / values[i]);
  for (int64_t i = rank; i < rows; i++) add_orthonormal(w, i, l);
  for (int64_t i = 0; i < k; i++) values[i] /= factor;
}
