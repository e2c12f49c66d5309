#ifndef CLI_MEASURE_H
#define CLI_MEASURE_H
/* Time and memory, as reports give them. */
#include <stddef.h>

double read_clock(void);   /* milliseconds, monotonic */
double measure_peak(void); /* MB: the most memory that was resident */

/* The median of the n > 0 values, which are sorted then, least first. */
double sort_to_median(double *values, size_t n);

#endif
