/* The command line's sampling options as the library takes them. */
#include "cli/generate_arguments.h"

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
