/* Chooses a token from logits. Equal logits, options and seed give the same id on every machine:
 * everything is +, -, * and / of doubles in a fixed order, e^x too, and the generator is Philox
 * (docs/llm.md). Nothing is sorted: what top-k and top-p keep is found by counting. */
#include "llm/sampler.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/options.h"
#include "base/philox.h"
#include "base/status.h"

/* The ids that may still be chosen, ascending, in arrays of `capacity`. */
typedef struct candidates {
  uint32_t *id;
  float *logit;
  double *weight; /* proportional to the probability; the likeliest has 1 */
  size_t n;
} candidates;

struct clave_sampler {
  clave_sampler_options options;
  clave_logit_bias *bias; /* owned */
  uint64_t draws;
  candidates c;    /* owned */
  uint32_t *times; /* owned: how often an id was seen, (capacity), all 0 between samples */
  size_t capacity;
};

/* ---------------------------------------------------------------- options */

static clave_status check_range(const char *name, float value, float most) {
  if (value >= 0 && value <= most) return NULL;
  if (most < HUGE_VALF) return INVALID("%s is %g, not between 0 and %g", name, value, most);
  return INVALID("%s is %g, not 0 or more", name, value);
}

static clave_status check_finite(const char *name, float value) {
  return isfinite(value) ? NULL : INVALID("%s is %g, not a finite number", name, value);
}

static clave_status check_options(const clave_sampler_options *o) {
  TRY(check_finite("repetition_penalty", o->repetition_penalty));
  TRY(check_range("repetition_penalty", o->repetition_penalty, HUGE_VALF));
  TRY(check_finite("presence_penalty", o->presence_penalty));
  TRY(check_finite("frequency_penalty", o->frequency_penalty));
  TRY(check_finite("temperature", o->temperature));
  TRY(check_range("temperature", o->temperature, HUGE_VALF));
  TRY(check_range("top_p", o->top_p, 1));
  TRY(check_range("min_p", o->min_p, 1));
  for (size_t i = 0; i < o->n_bias; i++) {
    if (isnan(o->bias[i].bias) || o->bias[i].bias == HUGE_VALF)
      return INVALID("the bias of id %u is %g", o->bias[i].id, o->bias[i].bias);
  }
  return NULL;
}

static clave_sampler_options read_options(const clave_sampler_options *o) {
  return (clave_sampler_options){.size = sizeof *o,
                                 .bias = OPTION(o, bias, NULL),
                                 .n_bias = OPTION(o, n_bias, 0),
                                 .repetition_penalty = OPTION(o, repetition_penalty, 0),
                                 .presence_penalty = OPTION(o, presence_penalty, 0),
                                 .frequency_penalty = OPTION(o, frequency_penalty, 0),
                                 .penalty_window = OPTION(o, penalty_window, 0),
                                 .temperature = OPTION(o, temperature, 0),
                                 .top_k = OPTION(o, top_k, 0),
                                 .top_p = OPTION(o, top_p, 0),
                                 .min_p = OPTION(o, min_p, 0),
                                 .seed = OPTION(o, seed, 0)};
}

clave_status clave_sampler_create(const clave_sampler_options *options, clave_sampler **out) {
  *out = NULL;
  clave_sampler_options o = read_options(options);
  TRY(check_options(&o));
  clave_sampler *s = calloc(1, sizeof *s);
  clave_logit_bias *bias = calloc(o.n_bias + 1, sizeof *bias);
  if (!s || !bias) {
    free(s);
    free(bias);
    return status_no_memory();
  }
  if (o.n_bias) memcpy(bias, o.bias, o.n_bias * sizeof *bias);
  s->options = o;
  s->options.bias = s->bias = bias;
  *out = s;
  return NULL;
}

void clave_sampler_destroy(clave_sampler *s) {
  if (!s) return;
  free(s->bias);
  free(s->c.id);
  free(s->c.logit);
  free(s->c.weight);
  free(s->times);
  free(s);
}

uint64_t sampler_draws(const clave_sampler *s) { return s->draws; }
void sampler_set_draws(clave_sampler *s, uint64_t draws) { s->draws = draws; }
const clave_sampler_options *sampler_options_of(const clave_sampler *s) { return &s->options; }

/* ---------------------------------------------------------------- logits */

static clave_status grow(clave_sampler *s, size_t count) {
  if (count <= s->capacity) return NULL;
  candidates c = {.id = calloc(count, sizeof *c.id),
                  .logit = calloc(count, sizeof *c.logit),
                  .weight = calloc(count, sizeof *c.weight)};
  uint32_t *times = calloc(count, sizeof *times);
  bool good = c.id && c.logit && c.weight && times;
  free(good ? s->c.id : c.id);
  free(good ? s->c.logit : c.logit);
  free(good ? s->c.weight : c.weight);
  free(good ? s->times : times);
  if (!good) return status_no_memory();
  s->c = c;
  s->times = times;
  s->capacity = count;
  return NULL;
}

static clave_status add_bias(const clave_sampler_options *o, float *logits, size_t count) {
  for (size_t i = 0; i < o->n_bias; i++) {
    if (o->bias[i].id >= count)
      return INVALID("a bias for id %u in a vocabulary of %zu", o->bias[i].id, count);
    float *l = &logits[o->bias[i].id];
    *l = o->bias[i].bias == -HUGE_VALF ? -HUGE_VALF : *l + o->bias[i].bias;
  }
  return NULL;
}

static void penalise(const clave_sampler_options *o, float *logit, uint32_t times) {
  float p = o->repetition_penalty;
  if (p > 0 && *logit != 0) *logit = *logit > 0 ? *logit / p : *logit * p;
  *logit -= o->presence_penalty;
  *logit -= o->frequency_penalty * (float)times;
}

/* Each id seen in the window once, with how often it was. */
static void apply_penalties(clave_sampler *s, size_t count, const uint32_t *seen, size_t n) {
  const clave_sampler_options *o = &s->options;
  bool repeats = o->repetition_penalty > 0 && o->repetition_penalty != 1;
  if (!repeats && o->presence_penalty == 0 && o->frequency_penalty == 0) return;
  if (o->penalty_window && n > o->penalty_window) {
    seen += n - o->penalty_window;
    n = o->penalty_window;
  }
  for (size_t i = 0; i < n; i++) {
    if (seen[i] < count) s->times[seen[i]]++;
  }
  for (size_t i = 0; i < n; i++) {
    if (seen[i] >= count || !s->times[seen[i]]) continue;
    penalise(o, &s->c.logit[seen[i]], s->times[seen[i]]);
    s->times[seen[i]] = 0;
  }
}

/* The first of the largest. */
static clave_status find_largest(const float *logits, size_t count, size_t *out) {
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

/* e^x for x <= 0, relative error below 1e-14, 0 where it is below 1e-300. x = n ln 2 + r with
 * |r| <= ln 2 / 2; e^r by its series. */
static double exp_of(double x) {
  const double magic = 0x1.8p52; /* what is added to it is rounded to an integer, in its low bits */
  double in = x > -690 ? x : -690, shifted = in * 0x1.71547652b82fep+0 + magic;
  double n = shifted - magic, r = in - n * 0x1.62e42fefa0000p-1 - n * 0x1.cf79abc9e3b3ap-40;
  double r2 = r * r, r4 = r2 * r2;
  double low = (1 + r) + r2 * (1. / 2 + r * (1. / 6));
  double middle = (1. / 24 + r * (1. / 120)) + r2 * (1. / 720 + r * (1. / 5040));
  double high = (1. / 40320 + r * (1. / 362880)) + r2 * (1. / 3628800 + r * (1. / 39916800));
  double series = low + r4 * (middle + r4 * high);
  uint64_t bits, scale;
  memcpy(&bits, &shifted, sizeof bits);
  scale = (bits + 1023) << 52; /* 2^n */
  double power;
  memcpy(&power, &scale, sizeof power);
  return x > -690 ? series * power : 0;
}

static void compute_weights(candidates *c, float largest, float temperature) {
  double by = 1.0 / (double)temperature;
  for (size_t i = 0; i < c->n; i++) {
    /* The difference of infinities is not a number. */
    double x = c->logit[i] == largest ? 0 : ((double)c->logit[i] - (double)largest) * by;
    c->weight[i] = exp_of(x);
  }
}

/* ---------------------------------------------------------------- what is kept */

/* Integers in the order of the floats. */
static uint32_t key_of(float logit) {
  float f = logit + 0.0F; /* -0 is 0 */
  uint32_t bits;
  memcpy(&bits, &f, sizeof bits);
  return bits >> 31 ? ~bits : bits | 0x80000000U;
}

enum { DIGIT_BITS = 11, DIGITS = 1 << DIGIT_BITS };

static double weight_at(const candidates *c, size_t i, bool by_weight) {
  return by_weight ? c->weight[i] : 1;
}

/* The highest key for which the candidates from it on weigh at least `target` together, digit by
 * digit from the top. *rest: what the candidates above it leave of the target. */
static uint32_t find_cut(const candidates *c, bool by_weight, double target, double *rest) {
  uint64_t cut = 0;
  for (int shift = 33 - DIGIT_BITS; shift >= 0; shift -= DIGIT_BITS) {
    double sums[DIGITS] = {0};
    int lowest = DIGITS - 1, digit = DIGITS - 1;
    for (size_t i = 0; i < c->n; i++) {
      uint64_t key = (uint64_t)key_of(c->logit[i]);
      if ((key ^ cut) >> (shift + DIGIT_BITS)) continue;
      int d = (int)(key >> shift & (DIGITS - 1));
      sums[d] += weight_at(c, i, by_weight);
      if (d < lowest) lowest = d;
    }
    while (digit > lowest && sums[digit] < target) target -= sums[digit--];
    cut |= (uint64_t)digit << shift;
  }
  *rest = target;
  return (uint32_t)cut;
}

/* Keeps the fewest of the largest that weigh `target`: of equal ones the smallest ids. */
static void keep_largest(candidates *c, bool by_weight, double target) {
  double rest;
  uint32_t cut = find_cut(c, by_weight, target, &rest);
  size_t n = 0;
  for (size_t i = 0; i < c->n; i++) {
    uint32_t key = key_of(c->logit[i]);
    if (key < cut || (key == cut && !(rest > 0))) continue;
    if (key == cut) rest -= weight_at(c, i, by_weight);
    c->id[n] = c->id[i];
    c->logit[n] = c->logit[i];
    c->weight[n++] = c->weight[i];
  }
  c->n = n;
}

static double sum_weights(const candidates *c) {
  double sum = 0;
  for (size_t i = 0; i < c->n; i++) sum += c->weight[i];
  return sum;
}

static void drop_unlikely(candidates *c, double least) {
  size_t n = 0;
  for (size_t i = 0; i < c->n; i++) {
    if (c->weight[i] < least) continue;
    c->id[n] = c->id[i];
    c->weight[n++] = c->weight[i];
  }
  c->n = n;
}

/* ---------------------------------------------------------------- the draw */

/* In [0, 1), 53 bits of the block's first two words. */
static double draw(clave_sampler *s) {
  uint32_t w[4] = {(uint32_t)s->draws, (uint32_t)(s->draws >> 32), 0, 0};
  s->draws++;
  philox(s->options.seed, w);
  return ldexp((double)((w[0] | (uint64_t)w[1] << 32) >> 11), -53);
}

static uint32_t choose(const candidates *c, double u) {
  double target = u * sum_weights(c), sum = 0;
  size_t last = 0;
  for (size_t i = 0; i < c->n; i++) {
    if (c->weight[i] <= 0) continue;
    sum += c->weight[i];
    last = i;
    if (sum > target) break;
  }
  return c->id[last];
}

static uint32_t sample_weighted(clave_sampler *s, size_t count, float largest) {
  const clave_sampler_options *o = &s->options;
  candidates *c = &s->c;
  c->n = count;
  for (size_t i = 0; i < count; i++) c->id[i] = (uint32_t)i;
  if (o->top_k && o->top_k < count) keep_largest(c, false, o->top_k);
  compute_weights(c, largest, o->temperature);
  if (o->top_p > 0 && o->top_p < 1) keep_largest(c, true, (double)o->top_p * sum_weights(c));
  if (o->min_p > 0) drop_unlikely(c, o->min_p);
  return choose(c, draw(s));
}

clave_status clave_sampler_sample(clave_sampler *s, const float *logits, size_t count,
                                  const uint32_t *seen, size_t n_seen, uint32_t *id) {
  *id = 0;
  if (count == 0 || count > UINT32_MAX) return INVALID("%zu logits", count);
  TRY(grow(s, count));
  memcpy(s->c.logit, logits, count * sizeof *logits);
  TRY(add_bias(&s->options, s->c.logit, count));
  apply_penalties(s, count, seen, n_seen);
  size_t best;
  TRY(find_largest(s->c.logit, count, &best));
  *id = s->options.temperature > 0 ? sample_weighted(s, count, s->c.logit[best]) : (uint32_t)best;
  return NULL;
}
