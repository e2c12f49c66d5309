#ifndef BASE_CLOCK_H
#define BASE_CLOCK_H
#include <stdint.h>

int64_t clock_ns(void); /* returns monotonic time in nanoseconds */

#endif
