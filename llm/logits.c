/* Log probabilities of logits. */
#include "llm/logits.h"

#include <math.h>

float logits_largest(const float *x, size_t n) {
  float largest = x[0];
  for (size_t i = 1; i < n; i++) largest = x[i] > largest ? x[i] : largest;
  return largest;
}

/* The difference of infinities is not a number. */
static double below(float x, float largest) {
  return x == largest ? 0 : (double)x - (double)largest;
}

double logits_log_sum(const float *x, size_t n, float largest) {
  double sum = 0;
  for (size_t i = 0; i < n; i++) sum += exp(below(x[i], largest));
  return log(sum);
}

double logits_log_probability(const float *x, uint32_t id, float largest, double log_sum) {
  return below(x[id], largest) - log_sum;
}
