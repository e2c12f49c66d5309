#ifndef COMPILE_CARRIED_CLOSE_H
#define COMPILE_CARRIED_CLOSE_H
/* Results of one device beside those of another, which rounds otherwise. */
#include <stdbool.h>
#include <stddef.h>

/* A model_close_fn. Integers and booleans are close where they are equal, infinities and NaNs where
 * both are; of numbers the difference is at most a share, by dtype, of the element kept and the
 * median magnitude of those that are not 0 together. */
bool results_close(int type, size_t n, const void *got, const void *kept, bool *is_close);

#endif
