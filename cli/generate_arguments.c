/* The command line's sampling options as the library takes them. */
#include "cli/generate_arguments.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/number.h"

bool is_chat(const generate_arguments *a) { return a->chat || a->chat_file; }

/* Returns the decimal that was written: 0.8, not the nearest float's 0.800000012. */
static double as_written(float x) {
  char digits[32];
  (void)number_print(digits, sizeof digits, "%.7g", (double)x);
  return number_read(digits, NULL);
}

static void settle(double *option, double otherwise) {
  if (*option < 0) *option = otherwise;
}

int settle_sampling(generate_arguments *a, const clave_llm *llm) {
  clave_llm_info info = {.size = sizeof info};
  clave_sampler_options s = {.size = sizeof s};
  TRY_STATUS(clave_llm_get_info(llm, &info));
  bool of_model = a->sampling && strcmp(a->sampling, "model") == 0;
  if (of_model && !info.sampling)
    return fail("%s does not say how to sample; --temperature and the options behind it do",
                a->model.program);
  if (of_model) s = *info.sampling;
  if (!a->sampling && is_chat(a)) s = *info.chat_sampling;
  settle(&a->temperature, as_written(s.temperature));
  settle(&a->top_p, as_written(s.top_p));
  settle(&a->min_p, as_written(s.min_p));
  settle(&a->repetition, as_written(s.repetition_penalty));
  if (a->top_k < 0) a->top_k = s.top_k;
  return EXIT_GOOD;
}

int settle_bos(const generate_arguments *a, const clave_llm *llm, int32_t *bos) {
  clave_llm_info info = {.size = sizeof info};
  clave_tokenizer_info t = {.size = sizeof t, .bos = CLAVE_NO_TOKEN};
  TRY_STATUS(clave_llm_get_info(llm, &info));
  *bos = a->bos && strcmp(a->bos, "no") == 0 ? CLAVE_NO_TOKEN : info.bos;
  if (!a->bos || strcmp(a->bos, "yes") != 0 || *bos != CLAVE_NO_TOKEN) return EXIT_GOOD;
  if (info.tokenizer) TRY_STATUS(clave_tokenizer_get_info(info.tokenizer, &t));
  bool known = t.bos != CLAVE_NO_TOKEN && (uint32_t)t.bos < info.n_vocab;
  *bos = t.bos;
  return known ? EXIT_GOOD
               : fail("--bos yes: %s has no token that texts begin with", a->model.program);
}

clave_sampler_options sampler_options(const generate_arguments *a, const clave_logit_bias *bias) {
  return (clave_sampler_options){.size = sizeof(clave_sampler_options),
                                 .bias = bias,
                                 .n_bias = a->bias.count,
                                 .repetition_penalty = (float)a->repetition,
                                 .presence_penalty = (float)a->presence,
                                 .frequency_penalty = (float)a->frequency,
                                 .penalty_window = (uint32_t)a->penalty_window,
                                 .temperature = (float)a->temperature,
                                 .top_k = (uint32_t)a->top_k,
                                 .top_p = (float)a->top_p,
                                 .min_p = (float)a->min_p,
                                 .seed = (uint64_t)a->seed};
}
