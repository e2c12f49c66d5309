/* Distances between numbers. */
#include "base/distance.h"

#include <math.h>
#include <stdlib.h>

double number_distance(double a, double b) {
  if (a == b || (isnan(a) && isnan(b))) return 0;
  const double distance = fabs(a - b);
  return isnan(distance) ? (double)INFINITY : distance;
}

bool number_is_close(double got, double want, double relative, double absolute) {
  const double size = isfinite(want) ? fabs(want) : 0;
  return number_distance(got, want) <= relative * size + absolute;
}

static int compare_magnitudes(const void *left, const void *right) {
  const double x = *(const double *)left, y = *(const double *)right;
  return (x > y) - (x < y);
}

double median_magnitude(dtype t, const void *data, int64_t n) {
  enum { SAMPLES = 1024 };
  double sizes[SAMPLES];
  size_t count = 0;
  for (int64_t i = 0; i < n; i += n / SAMPLES + 1) {
    const double size = fabs(element_number(t, (const char *)data + (size_t)i * dtype_size(t)));
    if (size > 0 && isfinite(size)) sizes[count++] = size;
  }
  qsort(sizes, count, sizeof *sizes, compare_magnitudes);
  return count ? sizes[count / 2] : 0;
}
