/* Chooses a token from logits. Equal logits, options and seed select the same id on every machine:
 * everything, including e^x, is +, -, * and / of doubles in a fixed order, and the generator is
 * Philox (docs/howto/language_models.md). Nothing is sorted: top-k and top-p find their limit by
 * counting. */
#include "llm/sampler.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/float_env.h"
#include "base/philox.h"
#include "base/sized.h"
#include "base/status.h"

struct clave_sampler {
  clave_sampler_options options;
  clave_logit_bias *bias; /* owned */
  uint64_t draws;
  sampler_scratch own; /* scratch of clave_sampler_sample */
};

/* ---------------------------------------------------------------- options */

static clave_status sampler_check_range(const char *name, float value, float most) {
  if (value >= 0 && value <= most) return NULL;
  if (most < HUGE_VALF) return INVALID("%s: expected 0 to %g, got %g", name, most, value);
  return INVALID("%s: expected 0 or more, got %g", name, value);
}

static clave_status check_finite(const char *name, float value) {
  return isfinite(value) ? NULL : INVALID("%s: expected a finite number, got %g", name, value);
}

static clave_status sampler_check_options(const clave_sampler_options *options) {
  TRY(check_finite("repetition_penalty", options->repetition_penalty));
  TRY(sampler_check_range("repetition_penalty", options->repetition_penalty, HUGE_VALF));
  TRY(check_finite("presence_penalty", options->presence_penalty));
  TRY(check_finite("frequency_penalty", options->frequency_penalty));
  TRY(check_finite("temperature", options->temperature));
  TRY(sampler_check_range("temperature", options->temperature, HUGE_VALF));
  TRY(sampler_check_range("top_p", options->top_p, 1));
  TRY(sampler_check_range("min_p", options->min_p, 1));
  for (size_t i = 0; i < options->n_bias; i++) {
    if (isnan(options->bias[i].bias) || options->bias[i].bias == HUGE_VALF)
      return INVALID("the bias of id %u: expected a finite number or -inf, got %g",
                     options->bias[i].id, options->bias[i].bias);
  }
  return NULL;
}

clave_status clave_sampler_create(const clave_sampler_options *options, clave_sampler **out) {
  OWN_FLOAT_ENV;
  *out = NULL;
  clave_sampler_options known;
  TRY(sized_read(options, &known, SIZED(clave_sampler_options, seed)));
  TRY(sampler_check_options(&known));
  clave_sampler *sampler = calloc(1, sizeof *sampler);
  clave_logit_bias *bias = calloc(known.n_bias + 1, sizeof *bias);
  if (!sampler || !bias) {
    free(sampler);
    free(bias);
    return status_no_memory();
  }
  if (known.n_bias) memcpy(bias, known.bias, known.n_bias * sizeof *bias);
  sampler->options = known;
  sampler->options.bias = sampler->bias = bias;
  *out = sampler;
  return NULL;
}

void sampler_scratch_free(sampler_scratch *scratch) {
  free(scratch->candidates.id);
  free(scratch->candidates.key);
  free(scratch->candidates.weight);
  free(scratch->candidates.subset);
  free(scratch->logits);
  free(scratch->occurrences);
  scratch->candidates = (candidates){0};
  scratch->logits = NULL;
  scratch->occurrences = NULL;
  scratch->capacity = 0;
}

void clave_sampler_destroy(clave_sampler *sampler) {
  if (!sampler) return;
  sampler_scratch_free(&sampler->own);
  free(sampler->bias);
  free(sampler);
}

uint64_t sampler_draws(const clave_sampler *sampler) { return sampler->draws; }
void sampler_set_draws(clave_sampler *sampler, uint64_t draws) { sampler->draws = draws; }
const clave_sampler_options *sampler_options_of(const clave_sampler *sampler) {
  return &sampler->options;
}

/* ---------------------------------------------------------------- logits */

static clave_status sampler_grow(sampler_scratch *scratch, size_t count) {
  if (count <= scratch->capacity) return NULL;
  sampler_scratch_free(scratch);
  scratch->candidates = (candidates){.id = calloc(count, sizeof *scratch->candidates.id),
                                     .key = calloc(count, sizeof *scratch->candidates.key),
                                     .weight = calloc(count, sizeof *scratch->candidates.weight),
                                     .subset = calloc(count, sizeof *scratch->candidates.subset)};
  scratch->logits = calloc(count, sizeof *scratch->logits);
  scratch->occurrences = calloc(count, sizeof *scratch->occurrences);
  if (!scratch->candidates.id || !scratch->candidates.key || !scratch->candidates.weight ||
      !scratch->candidates.subset || !scratch->logits || !scratch->occurrences)
    return status_no_memory();
  scratch->capacity = count;
  return NULL;
}

static clave_status sampler_add_bias(const clave_sampler_options *options, float *logits,
                                     size_t count) {
  for (size_t i = 0; i < options->n_bias; i++) {
    if (options->bias[i].id >= count)
      return INVALID("the bias of id %u is out of range: the vocabulary has %zu ids",
                     options->bias[i].id, count);
    float *list = &logits[options->bias[i].id];
    *list = options->bias[i].bias == -HUGE_VALF ? -HUGE_VALF : *list + options->bias[i].bias;
  }
  return NULL;
}

static void penalise(const clave_sampler_options *options, float *logit, uint32_t occurrences) {
  float p = options->repetition_penalty;
  if (p > 0 && *logit != 0) *logit = *logit > 0 ? *logit / p : *logit * p;
  *logit -= options->presence_penalty;
  *logit -= options->frequency_penalty * (float)occurrences;
}

/* Applies the penalties once to each id seen in the window, by its number of occurrences. */
static void apply_penalties(const clave_sampler_options *options, const sampler_scratch *scratch,
                            size_t count, const uint32_t *seen, size_t n) {
  bool repeats = options->repetition_penalty > 0 && options->repetition_penalty != 1;
  if (!repeats && options->presence_penalty == 0 && options->frequency_penalty == 0) return;
  if (options->penalty_window && n > options->penalty_window) {
    seen += n - options->penalty_window;
    n = options->penalty_window;
  }
  for (size_t i = 0; i < n; i++) {
    if (seen[i] < count) scratch->occurrences[seen[i]]++;
  }
  for (size_t i = 0; i < n; i++) {
    if (seen[i] >= count || !scratch->occurrences[seen[i]]) continue;
    penalise(options, &scratch->logits[seen[i]], scratch->occurrences[seen[i]]);
    scratch->occurrences[seen[i]] = 0;
  }
}

/* Finds the largest logit; in case of ties, the first one. */
static clave_status sampler_find_largest(const float *logits, size_t count, size_t *out) {
  size_t best = 0;
  for (size_t i = 0; i < count; i++) {
    if (isnan(logits[i])) return INVALID("the logit of id %zu is not a number", i);
    if (logits[i] > logits[best]) best = i;
  }
  *out = best;
  if (logits[best] == -HUGE_VALF) return INVALID("no token is possible: all logits are -infinity");
  return NULL;
}

/* ---------------------------------------------------------------- probabilities */

static uint32_t sampler_key_of(float logit) {
  float f = logit + 0.0F; /* turns -0 into 0 */
  uint32_t bits;
  memcpy(&bits, &f, sizeof bits);
  return bits >> 31 ? ~bits : bits | 0x80000000U;
}

static float logit_of(uint32_t key) {
  uint32_t bits = key >> 31 ? key & 0x7FFFFFFFU : ~key;
  float f;
  memcpy(&f, &bits, sizeof f);
  return f;
}

/* Returns e^x for x <= 0 with a relative error below 1e-14, or 0 if it is below 1e-299. x = n ln 2
 * + r with |r| <= ln 2 / 2; e^r by its series. */
static double exp_of(double x) {
  const double magic = 0x1.8p52; /* adding it rounds to an integer, which is in the low bits */
  double in = x > -690 ? x : -690, shifted = in * 0x1.71547652b82fep+0 + magic;
  double n = shifted - magic, r = in - n * 0x1.62e42fefa0000p-1 - n * 0x1.cf79abc9e3b3ap-40;
  double r2 = r * r, r4 = r2 * r2;
  double low = (1 + r) + r2 * (1. / 2 + r * (1. / 6));
  double middle = (1. / 24 + r * (1. / 120)) + r2 * (1. / 720 + r * (1. / 5040));
  double high = (1. / 40320 + r * (1. / 362880)) + r2 * (1. / 3628800 + r * (1. / 39916800));
  double series = low + r4 * (middle + r4 * high), power;
  uint64_t bits, scale;
  memcpy(&bits, &shifted, sizeof bits);
  scale = (bits + 1023) << 52; /* 2^n */
  memcpy(&power, &scale, sizeof power);
  return x > -690 ? series * power : 0;
}

/* Inlined into each caller, so that it is compiled for the caller's instruction set. */
static inline __attribute__((always_inline)) void weights_of(const candidates *candidates,
                                                             float largest, double by) {
  double *weight = candidates->weight;
  for (size_t i = 0; i < candidates->n; i++) {
    float logit = logit_of(candidates->key[i]);
    /* The difference of infinities is NaN. */
    weight[i] = logit == largest ? 0 : ((double)logit - (double)largest) * by;
  }
  for (size_t i = 0; i < candidates->n; i++) weight[i] = exp_of(weight[i]);
}

#if defined(__x86_64__) && defined(__GNUC__)
/* Uses no FMA, so that the results have the same bits as elsewhere. */
__attribute__((target("avx2"))) static void weights_avx2(const candidates *candidates,
                                                         float largest, double by) {
  weights_of(candidates, largest, by);
}
static bool has_avx2(void) { return __builtin_cpu_supports("avx2"); }
#else
#define weights_avx2 weights_of
static bool has_avx2(void) { return false; }
#endif

static void compute_weights(const candidates *candidates, float largest, float temperature) {
  (has_avx2() ? weights_avx2 : weights_of)(candidates, largest, 1.0 / (double)temperature);
}

enum { BLOCK = 1024, LANES = 4 };

/* Sums in several independent accumulators. */
static double sum_block(const double *weight, size_t n) {
  double sums[LANES] = {0};
  size_t i = 0;
  for (; i + LANES <= n; i += LANES) {
    for (int k = 0; k < LANES; k++) sums[k] += weight[i + (size_t)k];
  }
  for (; i < n; i++) sums[0] += weight[i];
  return (sums[0] + sums[1]) + (sums[2] + sums[3]);
}

static double sum_weights(const candidates *candidates) {
  double sum = 0;
  for (size_t at = 0; at < candidates->n; at += BLOCK)
    sum +=
        sum_block(candidates->weight + at, candidates->n - at < BLOCK ? candidates->n - at : BLOCK);
  return sum;
}

/* ---------------------------------------------------------------- top-k and top-p */

enum { DIGIT_BITS = 11, DIGITS = 1 << DIGIT_BITS };

static double sampler_weight_at(const candidates *candidates, size_t i, bool by_weight) {
  return by_weight ? candidates->weight[i] : 1;
}

static size_t sampler_digit_of(uint32_t key, int shift) { return key >> shift & (DIGITS - 1); }

/* Counts the candidates with each digit: the n whose indices are in `subset` or, if it is NULL,
 * the first n. Alternates between two tables, so that equal digits in a row do not wait for each
 * other. */
static void count_digits(const candidates *candidates, const uint32_t *subset, size_t n, int shift,
                         double counts[DIGITS]) {
  uint32_t halves[2][DIGITS] = {0};
  for (size_t i = 0; i < n; i++)
    halves[i % 2][sampler_digit_of(candidates->key[subset ? subset[i] : i], shift)]++;
  for (size_t d = 0; d < DIGITS; d++) counts[d] = (double)halves[0][d] + halves[1][d];
}

/* Sums the weights of the candidates with each digit. */
static void sum_digits(const candidates *candidates, const uint32_t *subset, size_t n, int shift,
                       double sums[DIGITS]) {
  double odd[DIGITS] = {0};
  memset(sums, 0, DIGITS * sizeof *sums);
  for (size_t i = 0; i < n; i++) {
    size_t at = subset ? subset[i] : i;
    (i % 2 ? odd : sums)[sampler_digit_of(candidates->key[at], shift)] += candidates->weight[at];
  }
  for (size_t d = 0; d < DIGITS; d++) sums[d] += odd[d];
}

/* Stores in candidates->subset the indices of the candidates with this digit, among those that
 * count_digits counts. Returns their number. */
static size_t select_digit(const candidates *candidates, const uint32_t *subset, size_t n,
                           int shift, size_t digit) {
  size_t kept = 0;
  for (size_t i = 0; i < n; i++) {
    size_t at = subset ? subset[i] : i;
    candidates->subset[kept] = (uint32_t)at;
    kept += sampler_digit_of(candidates->key[at], shift) == digit;
  }
  return kept;
}

static bool are_equal(const candidates *candidates, size_t n) {
  for (size_t i = 1; i < n; i++) {
    if (candidates->key[candidates->subset[i]] != candidates->key[candidates->subset[0]])
      return false;
  }
  return true;
}

/* Returns the highest key such that the candidates with this key or more weigh at least `target`
 * together; determined digit by digit from the top. *rest: the target minus the weight of the
 * candidates above that key. */
static uint32_t find_cut(const candidates *candidates, bool by_weight, double target,
                         double *rest) {
  const uint32_t *subset = NULL;
  size_t n = candidates->n;
  for (int shift = 2 * DIGIT_BITS; shift >= 0; shift -= DIGIT_BITS) {
    double sums[DIGITS];
    size_t lowest = 0, digit = DIGITS - 1;
    (by_weight ? sum_digits : count_digits)(candidates, subset, n, shift, sums);
    while (lowest < digit && sums[lowest] <= 0) lowest++;
    while (digit > lowest && sums[digit] < target) target -= sums[digit--];
    n = select_digit(candidates, subset, n, shift, digit);
    subset = candidates->subset;
    if (are_equal(candidates, n)) break;
  }
  *rest = target;
  return candidates->key[candidates->subset[0]];
}

/* Keeps the fewest of the largest candidates that weigh at least `target` together; of equal
 * candidates, keeps the smallest ids. */
static void keep_largest(candidates *candidates, bool by_weight, double target) {
  double rest;
  uint32_t cut = find_cut(candidates, by_weight, target, &rest);
  size_t n = 0;
  for (size_t i = 0; i < candidates->n; i++) {
    bool keep = candidates->key[i] > cut;
    if (candidates->key[i] == cut && rest > 0) {
      keep = true;
      rest -= sampler_weight_at(candidates, i, by_weight);
    }
    candidates->id[n] = candidates->id[i];
    candidates->key[n] = candidates->key[i];
    candidates->weight[n] = candidates->weight[i];
    n += keep;
  }
  candidates->n = n;
}

static void drop_unlikely(candidates *candidates, double least) {
  size_t n = 0;
  for (size_t i = 0; i < candidates->n; i++) {
    candidates->id[n] = candidates->id[i];
    candidates->weight[n] = candidates->weight[i];
    n += candidates->weight[i] >= least;
  }
  candidates->n = n;
}

/* ---------------------------------------------------------------- the draw */

/* Returns a number in [0, 1) from 53 bits of the block's first two words. */
static double sampler_draw(clave_sampler *sampler) {
  uint32_t w[4] = {(uint32_t)sampler->draws, (uint32_t)(sampler->draws >> 32), 0, 0};
  sampler->draws++;
  philox(sampler->options.seed, w);
  return ldexp((double)((w[0] | (uint64_t)w[1] << 32) >> 11), -53);
}

/* Returns the id of the first candidate at which the running sum exceeds the target. */
static uint32_t choose_in_block(const candidates *candidates, size_t at, size_t n, double sum,
                                double target) {
  size_t last = at;
  for (size_t i = at; i < at + n && sum <= target; i++) {
    if (candidates->weight[i] <= 0) continue;
    sum += candidates->weight[i];
    last = i;
  }
  return candidates->id[last];
}

static uint32_t llm_sampler_choose(const candidates *candidates, double u) {
  double target = u * sum_weights(candidates), sum = 0;
  size_t at = 0;
  for (;; at += BLOCK) {
    size_t n = candidates->n - at < BLOCK ? candidates->n - at : BLOCK;
    double block = sum_block(candidates->weight + at, n);
    if (sum + block > target || at + n == candidates->n)
      return choose_in_block(candidates, at, n, sum, target);
    sum += block;
  }
}

static uint32_t sample_weighted(clave_sampler *sampler, sampler_scratch *scratch, size_t count,
                                float largest) {
  const clave_sampler_options *options = &sampler->options;
  candidates *candidates = &scratch->candidates;
  candidates->n = count;
  for (size_t i = 0; i < count; i++) candidates->id[i] = (uint32_t)i;
  for (size_t i = 0; i < count; i++) candidates->key[i] = sampler_key_of(scratch->logits[i]);
  if (options->top_k && options->top_k < count) keep_largest(candidates, false, options->top_k);
  compute_weights(candidates, largest, options->temperature);
  if (options->top_p > 0 && options->top_p < 1)
    keep_largest(candidates, true, (double)options->top_p * sum_weights(candidates));
  if (options->min_p > 0) drop_unlikely(candidates, options->min_p);
  return llm_sampler_choose(candidates, sampler_draw(sampler));
}

clave_status sampler_choose(clave_sampler *sampler, sampler_scratch *scratch,
                            const sampler_input *in, uint32_t *id) {
  size_t count = in->count, best;
  *id = 0;
  if (count == 0 || count > UINT32_MAX)
    return INVALID("expected 1 to 4294967295 logits, got %zu", count);
  TRY(sampler_grow(scratch, count));
  memcpy(scratch->logits, in->logits, count * sizeof *in->logits);
  if (in->change && !in->change(in->change_ctx, scratch->logits, count, in->seen, in->n_seen))
    return INVALID("the function that changes logits stopped the generation");
  TRY(sampler_add_bias(&sampler->options, scratch->logits, count));
  apply_penalties(&sampler->options, scratch, count, in->seen, in->n_seen);
  TRY(sampler_find_largest(scratch->logits, count, &best));
  *id = sampler->options.temperature > 0
            ? sample_weighted(sampler, scratch, count, scratch->logits[best])
            : (uint32_t)best;
  return NULL;
}

clave_status clave_sampler_sample(clave_sampler *sampler, const float *logits, size_t count,
                                  const uint32_t *seen, size_t n_seen, uint32_t *id) {
  OWN_FLOAT_ENV;
  sampler_input in = {.logits = logits, .count = count, .seen = seen, .n_seen = n_seen};
  return sampler_choose(sampler, &sampler->own, &in, id);
}
