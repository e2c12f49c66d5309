/* sampler N: measures the milliseconds to choose one of N tokens, for each sampling method, on
 * logits like a model's (normal, with some outliers) and on equal ones. Prints one line of JSON. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "bench/common.h"
#include "clave_llm.h"

enum { ROUNDS = 51, SEEN = 4096 };

static const struct {
  const char *name;
  clave_sampler_options options;
} modes[] = {
    {"greedy", {.temperature = 0}},
    {"temperature", {.temperature = 0.8F}},
    {"top_k_40", {.temperature = 0.8F, .top_k = 40}},
    {"top_k_half", {.temperature = 0.8F, .top_k = 64000}},
    {"top_p", {.temperature = 0.8F, .top_p = 0.95F}},
    {"min_p", {.temperature = 0.8F, .min_p = 0.05F}},
    {"all",
     {.temperature = 0.8F,
      .top_k = 64000,
      .top_p = 0.95F,
      .min_p = 0.01F,
      .repetition_penalty = 1.1F,
      .presence_penalty = 0.1F,
      .frequency_penalty = 0.1F}},
};

static double time_mode(const clave_sampler_options *given, const float *logits, size_t n,
                        const uint32_t *seen) {
  clave_sampler_options options = *given;
  options.size = sizeof options;
  clave_sampler *sampler;
  uint32_t id;
  double times[ROUNDS];
  check(clave_sampler_create(&options, &sampler));
  for (int r = -3; r < ROUNDS; r++) {
    double begin = now_s();
    check(clave_sampler_sample(sampler, logits, n, seen, SEEN, &id));
    if (r >= 0) times[r] = 1e3 * (now_s() - begin);
  }
  clave_sampler_destroy(sampler);
  return median(times, ROUNDS);
}

int main(int argc, char **argv) {
  size_t n = argc > 1 ? (size_t)atoll(argv[1]) : 128256;
  float *normal = calloc(n, sizeof *normal), *equal = calloc(n, sizeof *equal);
  uint32_t seen[SEEN];
  if (!normal || !equal || !n) return 1;
  srand(1);
  for (size_t i = 0; i < n; i++) {
    double u = (rand() + 1.0) / (RAND_MAX + 2.0), v = rand() / (RAND_MAX + 1.0);
    normal[i] = (float)(3 * sqrt(-2 * log(u)) * cos(6.283185307179586 * v));
  }
  for (int i = 0; i < SEEN; i++) seen[i] = (uint32_t)((size_t)rand() % n);
  printf("{");
  for (size_t m = 0; m < sizeof modes / sizeof *modes; m++) {
    printf("%s\"%s\": [%.3f, %.3f]", m ? ", " : "", modes[m].name,
           time_mode(&modes[m].options, normal, n, seen),
           time_mode(&modes[m].options, equal, n, seen));
  }
  printf("}\n");
  free(normal);
  free(equal);
  return 0;
}
