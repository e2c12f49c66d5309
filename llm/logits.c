/* Log probabilities of logits. */
#include "llm/logits.h"

#include <math.h>

float logits_largest(const float *values, size_t n) {
  float largest = values[0];
  for (size_t i = 1; i < n; i++) largest = values[i] > largest ? values[i] : largest;
  return largest;
}

/* Returns x - largest, and 0 for two infinities, whose difference is NaN. */
static double below(float x, float largest) {
  return x == largest ? 0 : (double)x - (double)largest;
}

double logits_log_sum(const float *values, size_t n, float largest) {
  double sum = 0;
  for (size_t i = 0; i < n; i++) sum += exp(below(values[i], largest));
  return log(sum);
}

double logits_log_probability(const float *values, uint32_t id, float largest, double log_sum) {
  return below(values[id], largest) - log_sum;
}
