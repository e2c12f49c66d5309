#ifndef COMPILE_CARRIED_CLOSE_H
#define COMPILE_CARRIED_CLOSE_H
/* Compares results of two devices with different rounding. */
#include <stdbool.h>
#include <stddef.h>

/* A model_close_fn. Integers and bools must be equal; infinities and NaNs must match. For other
 * numbers, the difference may be at most a dtype-dependent share of the kept element plus the
 * median magnitude of the nonzero kept elements. */
bool results_close(int type, size_t n, const void *got, const void *kept, bool *is_close);

#endif
