#ifndef BASE_CLOCK_H
#define BASE_CLOCK_H
#include <stdint.h>

int64_t clock_ns(void);       /* returns monotonic time in nanoseconds */
void clock_sleep(int64_t ns); /* returns earlier if a signal arrives */

#endif
