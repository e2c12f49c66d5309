/* Rounding of rows to 8 bits. */
#include "base/rounded.h"

#include <float.h>
#include <math.h>
#include <stdbool.h>

float rounded_group(const float *x, int n, int8_t *q) {
  float largest = 0;
  bool finite = true;
  for (int i = 0; i < n; i++) {
    finite = finite && isfinite(x[i]);
    if (fabsf(x[i]) > largest) largest = fabsf(x[i]);
    q[i] = 0;
  }
  float scale = largest / 127.0f;
  if (!finite) return NAN;
  if (scale < FLT_MIN) return 0;
  float inverse = 127.0f / largest;
  for (int i = 0; i < n; i++) q[i] = (int8_t)rintf(x[i] * inverse);
  return scale;
}

void rounded_row(float *x, int64_t n) {
  for (int64_t at = 0; at < n; at += ROUNDED_GROUP) {
    int8_t q[ROUNDED_GROUP];
    int count = n - at < ROUNDED_GROUP ? (int)(n - at) : ROUNDED_GROUP;
    float scale = rounded_group(x + at, count, q);
    for (int i = 0; i < count; i++) x[at + i] = scale * (float)q[i];
  }
}
