/* Sources: YaRN, https://arxiv.org/abs/2309.00071; LongRoPE, https://arxiv.org/abs/2402.13753. */
#include "import/gguf/rope.h"

#include <math.h>

/* Returns the pair that turns so many times in the original context. */
static double rope_pair(const gguf_rope *rope, double turns) {
  const double pi = 3.14159265358979323846;
  return (double)rope->dims * log((double)rope->original / (turns * 2 * pi)) /
         (2 * log(rope->base));
}

/* Returns the share of pair i that YaRN does not scale: 1 for pairs that turn more than beta_fast
 * times in the original context, 0 for pairs that turn less than beta_slow times. */
static double rope_kept(const gguf_rope *rope, int64_t i) {
  double low = rope_pair(rope, rope->beta_fast), high = rope_pair(rope, rope->beta_slow);
  if (!rope->exact) low = floor(low), high = ceil(high);
  low = fmax(low, 0);
  high = fmin(high, (double)(rope->dims - 1));
  const double ramp = ((double)i - low) / fmax(high - low, 0.001);
  return 1 - fmin(fmax(ramp, 0), 1);
}

void gguf_frequencies(const gguf_rope *rope, const float *factors, float *out) {
  for (int64_t i = 0; i < rope->dims / 2; i++) {
    double plain = pow(rope->base, -(double)(2 * i) / (double)rope->dims);
    if (factors) plain /= (double)factors[i];
    if (rope->kind == ROPE_LINEAR) plain /= rope->factor;
    if (rope->kind == ROPE_YARN) {
      const double share = rope_kept(rope, i);
      plain = plain * share + plain / rope->factor * (1 - share);
    }
    out[i] = plain > (double)HUGE_VALF ? HUGE_VALF : (float)plain;
  }
}

double gguf_magnitude(const gguf_rope *rope, int64_t context) {
  const double given = rope->magnitude > 0 ? rope->magnitude : 1;
  if (rope->kind == ROPE_YARN) {
    const double own = 0.1 * log(fmax(rope->factor, 1)) + 1;
    const bool is_whole = fabs(given - own) < 1e-4; /* in files of OLMo 3 of 2025 */
    return is_whole ? own : given * own;
  }
  if (rope->kind == ROPE_LONG && rope->magnitude == 0) {
    const double stretched = (double)context / (double)rope->original;
    return stretched > 1 ? sqrt(1 + log(stretched) / log((double)rope->original)) : 1;
  }
  return given;
}
