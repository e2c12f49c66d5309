/* Converts sampling options of the command line to those of the library. */
#include "cli/generate_arguments.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/number.h"

bool is_chat(const generate_arguments *arguments) {
  return arguments->chat || arguments->chat_file;
}

/* Returns the decimal that the user wrote: 0.8, not 0.800000012, the value of the nearest float. */
static double as_written(float x) {
  char digits[32];
  (void)number_print(digits, sizeof digits, "%.7g", (double)x);
  return number_read(digits, NULL);
}

static void generate_arguments_settle(double *option, double otherwise) {
  if (*option < 0) *option = otherwise;
}

int settle_sampling(generate_arguments *arguments, const clave_llm *llm) {
  clave_llm_info info = {.size = sizeof info};
  clave_sampler_options options = {.size = sizeof options};
  TRY_STATUS(clave_llm_get_info(llm, &info));
  bool of_model = arguments->sampling && strcmp(arguments->sampling, "model") == 0;
  if (of_model && !info.sampling)
    return fail(
        "--sampling model: %s has no sampling settings; set --temperature, --top-k and the other "
        "options",
        arguments->model.program);
  if (of_model) options = *info.sampling;
  if (!arguments->sampling && is_chat(arguments)) options = *info.chat_sampling;
  generate_arguments_settle(&arguments->temperature, as_written(options.temperature));
  generate_arguments_settle(&arguments->top_p, as_written(options.top_p));
  generate_arguments_settle(&arguments->min_p, as_written(options.min_p));
  generate_arguments_settle(&arguments->repetition, as_written(options.repetition_penalty));
  if (arguments->top_k < 0) arguments->top_k = options.top_k;
  return EXIT_GOOD;
}

int settle_bos(const generate_arguments *arguments, const clave_llm *llm, int32_t *bos) {
  clave_llm_info info = {.size = sizeof info};
  clave_tokenizer_info tokenizer_info = {.size = sizeof tokenizer_info, .bos = CLAVE_NO_TOKEN};
  TRY_STATUS(clave_llm_get_info(llm, &info));
  *bos = arguments->bos && strcmp(arguments->bos, "no") == 0 ? CLAVE_NO_TOKEN : info.bos;
  if (!arguments->bos || strcmp(arguments->bos, "yes") != 0 || *bos != CLAVE_NO_TOKEN)
    return EXIT_GOOD;
  if (info.tokenizer) TRY_STATUS(clave_tokenizer_get_info(info.tokenizer, &tokenizer_info));
  bool known = tokenizer_info.bos != CLAVE_NO_TOKEN && (uint32_t)tokenizer_info.bos < info.n_vocab;
  *bos = tokenizer_info.bos;
  return known ? EXIT_GOOD : fail("--bos yes: %s has no BOS token", arguments->model.program);
}

clave_sampler_options sampler_options(const generate_arguments *arguments,
                                      const clave_logit_bias *bias) {
  return (clave_sampler_options){.size = sizeof(clave_sampler_options),
                                 .bias = bias,
                                 .n_bias = arguments->bias.count,
                                 .repetition_penalty = (float)arguments->repetition,
                                 .presence_penalty = (float)arguments->presence,
                                 .frequency_penalty = (float)arguments->frequency,
                                 .penalty_window = (uint32_t)arguments->penalty_window,
                                 .temperature = (float)arguments->temperature,
                                 .top_k = (uint32_t)arguments->top_k,
                                 .top_p = (float)arguments->top_p,
                                 .min_p = (float)arguments->min_p,
                                 .seed = (uint64_t)arguments->seed};
}
