#ifndef BASE_ROUNDED_H
#define BASE_ROUNDED_H
/* Floats rounded to 8 bits in groups of neighbours. Under CLAVE_PRECISION=fast, products with
 * quantised weights round their rows in this way.
 *
 * A group has one scale s = largest magnitude / 127, in f32. An element x is replaced by s * q,
 * where q is x * (127 / largest magnitude) in f32, rounded to the nearest integer with ties to
 * even. This is llama.cpp's Q8_0 with an f32 scale. So |x - s * q| is at most largest magnitude /
 * 254, plus f32 rounding errors. If s would be subnormal, s and all q are 0. If an element is not
 * finite, s is NaN and all q are 0. kernels_cl/gemm/gemm_dots_pack.cl does the same. */
#include <stdint.h>

enum { ROUNDED_GROUP = 32 };

/* Returns the scale of values[0, n), n <= ROUNDED_GROUP, and writes the q of each. */
float rounded_group(const float *values, int n, int8_t *codes);
/* Replaces each element of a row by its s * q. The first group begins with the first element. */
void rounded_row(float *values, int64_t n);

#endif
