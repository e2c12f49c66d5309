#ifndef BASE_DRAWN_H
#define BASE_DRAWN_H
/* Tensors that are made up, the same everywhere, and what tells results apart. */
#include <stddef.h>
#include <stdint.h>

#include "base/dtype.h"
#include "base/sha256.h"

#define DRAWN_SEED UINT64_C(0x9e3779b97f4a7c15)
/* n elements: floats about as a normal distribution has them, integers zeros. *seed goes on. */
void draw_elements(dtype t, size_t n, void *to, uint64_t *seed);
/* Of sizes within these bounds the smallest that is not 0, if there is one. */
int64_t drawn_size(int64_t min, int64_t max);
/* SHA-256 of n elements, in which all NaNs are one. */
void digest_elements(dtype t, size_t n, const void *data, char hex[SHA256_TEXT]);

#endif
