#ifndef BASE_DISTANCE_H
#define BASE_DISTANCE_H
/* Distances between results, to compare those of two devices. */
#include <stdbool.h>

#include "base/dtype.h"

/* Returns |a - b|; 0 if both are equal or both are NaN; infinity if one is NaN or infinite and the
 * other differs. */
double number_distance(double a, double b);
/* True if the distance is at most relative * |want| + absolute. */
bool number_is_close(double got, double want, double relative, double absolute);
/* Returns the median magnitude of up to 1,024 evenly spaced elements of n. Zeros, infinities and
 * NaNs are left out; 0 if no other element remains. */
double median_magnitude(dtype t, const void *data, int64_t n);

#endif
