#ifndef CLI_MEASURE_H
#define CLI_MEASURE_H
/* Time and memory measurements for reports. */
#include <stddef.h>

double read_clock(void);   /* monotonic time in milliseconds */
double measure_peak(void); /* peak resident memory in MB */

/* Sorts n > 0 values in ascending order and returns their median. */
double sort_to_median(double *values, size_t n);

#endif
