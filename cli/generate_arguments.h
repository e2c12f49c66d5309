#ifndef CLI_GENERATE_ARGUMENTS_H
#define CLI_GENERATE_ARGUMENTS_H
/* What the command line says of generating text, for plain prompts (generate.c) and chats. */
#include "cli/model.h"
#include "cli/speech.h"

typedef struct generate_arguments {
  model_arguments model;
  const char *tokenizer, *pattern, *prompt, *prompt_file, *prompt_ids, *output_ids, *stats_json,
      *logprobs, *system, *template, *tools, *documents, *chat_file, *perplexity, *sampling, *bos;
  text_list stop, bias, template_arguments;
  int64_t max_new_tokens, max_context, top_k, seed, penalty_window, prefill_chunk, top_logprobs,
      window, stride;
  double temperature, top_p, min_p, repetition, presence, frequency;
  bool chat, ignore_stop_ids, color, verbose_prompt;
} generate_arguments;

/* Sampling options that the command line leaves out, until settle_sampling. */
#define SAMPLING_NOT_GIVEN \
  .temperature = -1, .top_k = -1, .top_p = -1, .min_p = -1, .repetition = -1
bool is_chat(const generate_arguments *arguments);
/* Fills in options that were not given: the model's with --sampling model, the defaults of chats in
 * a chat, else none. */
int settle_sampling(generate_arguments *arguments, const clave_llm *llm);

/* Sets *bos to the token that a text begins with, as --bos or else the model says; CLAVE_NO_TOKEN:
 * none. */
int settle_bos(const generate_arguments *arguments, const clave_llm *llm, int32_t *bos);

/* Of settled arguments. bias: as many as the arguments have. */
clave_sampler_options sampler_options(const generate_arguments *arguments,
                                      const clave_logit_bias *bias);

#endif
