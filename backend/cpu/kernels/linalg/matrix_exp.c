/* The matrix exponential by scaling and squaring: a Padé approximant of degree 13 of x / 2^s, whose
 * 1-norm is below 5.4, squared s times (Higham 2005, "The scaling and squaring method for the
 * matrix exponential revisited"). */
#include <math.h>

#include "backend/cpu/kernels/linalg/matrix.h"

static const double coefficients[] = {64764752532480000.0,
                                      32382376266240000.0,
                                      7771770303897600.0,
                                      1187353796428800.0,
                                      129060195264000.0,
                                      10559470521600.0,
                                      670442572800.0,
                                      33522128640.0,
                                      1323241920.0,
                                      40840800.0,
                                      960960.0,
                                      16380.0,
                                      182.0,
                                      1.0};
static const double largest_norm = 5.371920351148152; /* largest norm for the approximant */
enum { MAX_SQUARINGS = 1023 };                        /* exponent of the largest double */

size_t matrix_exp_work(int64_t n) { return (size_t)(6 * n * n); }

/* out = a b */
static void matrix_exp_multiply(int64_t n, const double *a, const double *b, double *out) {
  for (int64_t i = 0; i < n; i++) {
    double *row = out + i * n;
    for (int64_t j = 0; j < n; j++) row[j] = 0;
    for (int64_t k = 0; k < n; k++)
      for (int64_t j = 0; j < n; j++) row[j] += a[i * n + k] * b[k * n + j];
  }
}

static double norm_1(const double *x, int64_t n) {
  double most = 0;
  for (int64_t j = 0; j < n; j++) {
    double sum = 0;
    for (int64_t i = 0; i < n; i++) sum += fabs(x[i * n + j]);
    if (sum > most) most = sum;
  }
  return most;
}

/* out = the sum of powers 0, 2, 4 and 6 of x, times every second coefficient from `first` on. */
static void even_powers(int64_t n, const double *x2, const double *x4, const double *x6, int first,
                        bool with_identity, double *out) {
  const double *c = coefficients + first;
  for (int64_t i = 0; i < n * n; i++) out[i] = c[2] * x2[i] + c[4] * x4[i] + c[6] * x6[i];
  for (int64_t i = 0; with_identity && i < n; i++) out[i * n + i] += c[0];
}

/* out = the approximant's terms of even powers (parity 0), or of odd powers divided by x (1). */
static void half_approximant(int64_t n, const double *x2, const double *x4, const double *x6,
                             int parity, double *high, double *out) {
  even_powers(n, x2, x4, x6, parity + 6, false, high);
  matrix_exp_multiply(n, x6, high, out);
  even_powers(n, x2, x4, x6, parity, true, high);
  for (int64_t i = 0; i < n * n; i++) out[i] += high[i];
}

/* Replaces x, which holds p, by q^-1 p by LU. Destroys q. Exchanges rows of both together. */
static void solve(int64_t n, double *q, double *x) {
  for (int64_t k = 0; k < n; k++) {
    int64_t best = k;
    for (int64_t i = k + 1; i < n; i++)
      if (fabs(q[i * n + k]) > fabs(q[best * n + k])) best = i;
    exchange_rows(q, n, k, best);
    exchange_rows(x, n, k, best);
    for (int64_t i = k + 1; i < n; i++) {
      double factor = q[i * n + k] / q[k * n + k];
      for (int64_t j = k; j < n; j++) q[i * n + j] -= factor * q[k * n + j];
      for (int64_t j = 0; j < n; j++) x[i * n + j] -= factor * x[k * n + j];
    }
  }
  matrix_solve_triangular(q, n, true, false, x, n);
}

/* Replaces x by its approximant. */
static void approximate(double *x, int64_t n, double *work) {
  int64_t size = n * n;
  double *x2 = work, *x4 = x2 + size, *x6 = x4 + size, *even = x6 + size, *odd = even + size,
         *high = odd + size;
  matrix_exp_multiply(n, x, x, x2);
  matrix_exp_multiply(n, x2, x2, x4);
  matrix_exp_multiply(n, x4, x2, x6);
  half_approximant(n, x2, x4, x6, 0, high, even);
  half_approximant(n, x2, x4, x6, 1, high, odd);
  matrix_exp_multiply(n, x, odd, high);
  for (int64_t i = 0; i < size; i++) {
    x[i] = even[i] + high[i];
    even[i] -= high[i];
  }
  solve(n, even, x);
}

void matrix_exp(double *x, int64_t n, double *work) {
  int64_t size = n * n;
  if (!all_finite(x, size)) {
    for (int64_t i = 0; i < size; i++) x[i] = NAN;
    return;
  }
  int squarings = 0;
  double norm = norm_1(x, n);
  if (norm > largest_norm) squarings = (int)fmin(ceil(log2(norm / largest_norm)), MAX_SQUARINGS);
  for (int64_t i = 0; i < size; i++) x[i] = ldexp(x[i], -squarings);
  approximate(x, n, work);
  for (int s = 0; s < squarings; s++) {
    matrix_exp_multiply(n, x, x, work);
    for (int64_t i = 0; i < size; i++) x[i] = work[i];
  }
}
