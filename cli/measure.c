/* Time and memory measurements for reports. */
#include "cli/measure.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

double read_clock(void) {
  struct timespec t;
  (void)clock_gettime(CLOCK_MONOTONIC, &t);
  return 1e3 * (double)t.tv_sec + 1e-6 * (double)t.tv_nsec;
}

/* Reads /proc instead of calling getrusage(), which includes the memory of a large parent process
 * before exec. */
double measure_peak(void) {
  FILE *file = fopen("/proc/self/status", "r");
  char line[256];
  long long kb = 0;
  while (file && fgets(line, sizeof line, file))
    if (sscanf(line, "VmHWM: %lld", &kb) == 1) break;
  if (file) (void)fclose(file);
  return (double)kb * 1024 / 1e6;
}

static int cli_measure_compare_numbers(const void *left, const void *right) {
  const double x = *(const double *)left, y = *(const double *)right;
  return (x > y) - (x < y);
}

double sort_to_median(double *values, size_t n) {
  qsort(values, n, sizeof *values, cli_measure_compare_numbers);
  return n % 2 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}
