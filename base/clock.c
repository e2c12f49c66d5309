/* Elapsed time. */
#include "base/clock.h"

#include <time.h>

int64_t clock_ns(void) {
  struct timespec t;
  (void)clock_gettime(CLOCK_MONOTONIC, &t);
  return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

void clock_sleep(int64_t ns) {
  const struct timespec pause = {.tv_sec = (time_t)(ns / 1000000000),
                                 .tv_nsec = (long)(ns % 1000000000)};
  (void)nanosleep(&pause, NULL);
}
