#ifndef BASE_ROUNDED_H
#define BASE_ROUNDED_H
/* Floats rounded to 8 bits in groups of neighbours: how rows enter a product with quantised weights
 * under CLAVE_PRECISION=fast. A group has one scale s = largest magnitude / 127, in f32, and an
 * element x becomes s * q, q = x * (127 / largest magnitude), in f32, rounded to the next integer,
 * of two to the even one: llama.cpp's Q8_0 with a scale in f32. So |x - s * q| is at most largest
 * magnitude / 254, but for rounding in f32. Where s would be subnormal it is 0, as all q; where an
 * element is not finite it is NaN, and all q are 0. kernels_cl/gemm/gemm_dots_pack.cl does the
 * same. */
#include <stdint.h>

enum { ROUNDED_GROUP = 32 };

/* The scale of values[0..n), n <= ROUNDED_GROUP. */
float rounded_group(const float *values, int n, int8_t *queries);
/* A row becomes s * q of its groups, which are counted from its first element. */
void rounded_row(float *values, int64_t n);

#endif
