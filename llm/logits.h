#ifndef LLM_LOGITS_H
#define LLM_LOGITS_H
/* Log probabilities from logits, in doubles. */
#include <stddef.h>
#include <stdint.h>

float logits_largest(const float *values, size_t n); /* n > 0; no NaN */
/* Returns log(sum of e^(values[i] - largest)). Several infinite values count as equally likely. */
double logits_log_sum(const float *values, size_t n, float largest);
double logits_log_probability(const float *values, uint32_t id, float largest, double log_sum);

#endif
