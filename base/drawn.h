#ifndef BASE_DRAWN_H
#define BASE_DRAWN_H
/* Reproducible pseudo-random tensors, and digests for comparing results. */
#include <stddef.h>
#include <stdint.h>

#include "base/dtype.h"
#include "base/sha256.h"

#define DRAWN_SEED UINT64_C(0x9e3779b97f4a7c15)
/* Fills n elements: floats have roughly a normal distribution, integers are zero. Advances *seed,
 * the state of the generator. */
void draw_elements(dtype t, size_t n, void *to, uint64_t *seed);
/* Returns the smallest size that is at least min and not 0, but at most max. */
int64_t drawn_size(int64_t min, int64_t max);
/* Writes the SHA-256 of n elements as hexadecimal text. All NaNs are hashed as the same bits. */
void digest_elements(dtype t, size_t n, const void *data, char hex[SHA256_TEXT]);

#endif
