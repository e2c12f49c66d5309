/* Compares results of two devices. */
#include "compile/carried/close.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/distance.h"

/* Returns the allowed share, which covers the accumulated rounding of a whole program. */
static double close_share_of(dtype t) {
  static const double shares[] = {
      [DTYPE_F32] = 1e-3,  [DTYPE_F64] = 1e-6,     [DTYPE_F16] = 1e-2,
      [DTYPE_BF16] = 5e-2, [DTYPE_F8_E4M3] = 0.25, [DTYPE_F8_E5M2] = 0.5};
  return dtype_has_fractions(t) ? shares[t] : 0;
}

static double element_as_double(dtype t, const void *data, size_t i) {
  return element_number(t, (const char *)data + i * dtype_size(t));
}

static int close_by_value(const void *left, const void *right) {
  const double x = *(const double *)left, y = *(const double *)right;
  return (x > y) - (x < y);
}

/* Finds the median magnitude of the nonzero finite elements; 0 if there are none. Returns false if
 * out of memory. */
static bool find_median(dtype t, size_t n, const void *data, double *out) {
  double *all = malloc((n + 1) * sizeof *all);
  size_t m = 0;
  if (!all) return false;
  for (size_t i = 0; i < n; i++) {
    const double x = fabs(element_as_double(t, data, i));
    if (x > 0 && isfinite(x)) all[m++] = x;
  }
  qsort(all, m, sizeof *all, close_by_value);
  *out = m ? all[m / 2] : 0;
  free(all);
  return true;
}

bool results_close(int type, size_t n, const void *got, const void *kept, bool *is_close) {
  const dtype t = (dtype)type;
  const double share = close_share_of(t);
  double median = 0;
  *is_close = memcmp(got, kept, n * dtype_size(t)) == 0;
  if (*is_close || share == 0) return true;
  if (!find_median(t, n, kept, &median)) return false;
  *is_close = true;
  for (size_t i = 0; i < n && *is_close; i++)
    *is_close = number_is_close(element_as_double(t, got, i), element_as_double(t, kept, i), share,
                                share * median);
  return true;
}
