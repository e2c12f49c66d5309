#ifndef BASE_DISTANCE_H
#define BASE_DISTANCE_H
/* How far results are apart, for whoever compares those of two devices. */
#include <stdbool.h>

#include "base/dtype.h"

/* 0: they are equal, or both are NaN; infinite: one is NaN or infinite, and the other differs. */
double number_distance(double a, double b);
/* Whether the distance is at most relative * |want| + absolute. */
bool number_is_close(double got, double want, double relative, double absolute);
/* The median magnitude of those that are neither 0 nor infinite nor NaN, of at most 1,024 of the n
 * elements, evenly apart; 0: there are none. */
double median_magnitude(dtype t, const void *data, int64_t n);

#endif
