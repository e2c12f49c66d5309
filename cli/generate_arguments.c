/* The command line's sampling options as the library takes them. */
#include "cli/generate_arguments.h"

#include <string.h>

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
  settle(&a->temperature, (double)s.temperature);
  settle(&a->top_p, (double)s.top_p);
  settle(&a->min_p, (double)s.min_p);
  settle(&a->repetition, (double)s.repetition_penalty);
  if (a->top_k < 0) a->top_k = s.top_k;
  return EXIT_GOOD;
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
