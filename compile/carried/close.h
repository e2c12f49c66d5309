#ifndef COMPILE_CARRIED_CLOSE_H
#define COMPILE_CARRIED_CLOSE_H
/* Compares results of two devices with different rounding. */
#include <stdbool.h>
#include <stddef.h>

/* A model_close_fn. Integers and bools must be equal; infinities and NaNs must match. Other numbers
 * may differ by a share, which depends on the dtype, of the sum of the kept element's magnitude and
 * the median magnitude of the nonzero kept elements. */
bool results_close(int type, size_t n, const void *got, const void *kept, bool *is_close);

#endif
