#ifndef CLI_MEASURE_H
#define CLI_MEASURE_H
/* Time and memory, as reports give them. */

double read_clock(void);   /* milliseconds, monotonic */
double measure_peak(void); /* MB: the most memory that was resident */

#endif
