/* Rounds rows to 8 bits. */
#include "base/rounded.h"

#include <float.h>
#include <math.h>
#include <string.h>

/* 1.5 * 2^23. Adding it to a float below 2^22 leaves no fraction bits, so the sum is rounded as by
 * rintf. Subtracting it again is exact. */
static const float TO_INTEGER = 12582912.0f;

static float round_whole_group(const float *values, int8_t *codes) {
  int32_t bits[ROUNDED_GROUP], largest = 0;
  const int32_t infinity = 0x7f800000;
  float magnitude, scale, inverse;
  memcpy(bits, values, sizeof bits);
  for (int i = 0; i < ROUNDED_GROUP; i++) {
    int32_t size = bits[i] & 0x7fffffff; /* integers in the order of the floats' magnitudes */
    largest = size > largest ? size : largest;
  }
  memcpy(&magnitude, &largest, sizeof magnitude);
  scale = magnitude / 127.0f;
  memset(codes, 0, ROUNDED_GROUP);
  if (largest >= infinity) return NAN;
  if (scale < FLT_MIN) return 0;
  inverse = 127.0f / magnitude;
  for (int i = 0; i < ROUNDED_GROUP; i++)
    codes[i] = (int8_t)(int32_t)(values[i] * inverse + TO_INTEGER - TO_INTEGER);
  return scale;
}

float rounded_group(const float *values, int n, int8_t *codes) {
  float padded[ROUNDED_GROUP] = {0};
  int8_t rounded[ROUNDED_GROUP];
  if (n == ROUNDED_GROUP) return round_whole_group(values, codes);
  memcpy(padded, values, sizeof *values * (size_t)n);
  float scale = round_whole_group(padded, rounded);
  memcpy(codes, rounded, (size_t)n);
  return scale;
}

void rounded_row(float *values, int64_t n) {
  for (int64_t at = 0; at < n; at += ROUNDED_GROUP) {
    int8_t q[ROUNDED_GROUP];
    int count = n - at < ROUNDED_GROUP ? (int)(n - at) : ROUNDED_GROUP;
    float scale = rounded_group(values + at, count, q);
    for (int i = 0; i < count; i++) values[at + i] = scale * (float)q[i];
  }
}
