#ifndef CLI_GENERATE_ARGUMENTS_H
#define CLI_GENERATE_ARGUMENTS_H
/* Command line options of text generation, for plain prompts (generate.c) and chats. */
#include "cli/model.h"
#include "cli/speech.h"

typedef struct generate_arguments {
  model_arguments model;
  const char *tokenizer, *pattern, *prompt, *prompt_file, *prompt_ids, *output_ids, *stats_json,
      *logprobs, *system, *template, *tools, *documents, *chat_file, *perplexity, *sampling, *bos,
      *kv;
  text_list stop, bias, template_arguments;
  int64_t max_new_tokens, max_context, top_k, seed, penalty_window, prefill_chunk, top_logprobs,
      window, stride;
  double temperature, top_p, min_p, repetition, presence, frequency;
  bool chat, ignore_stop_ids, color, verbose_prompt;
} generate_arguments;

/* Marks sampling options that the command line omits, until settle_sampling fills them in. */
#define SAMPLING_NOT_GIVEN \
  .temperature = -1, .top_k = -1, .top_p = -1, .min_p = -1, .repetition = -1
bool is_chat(const generate_arguments *arguments);
/* Fills in options that were not given: from the model with --sampling model, the chat defaults in
 * a chat, else greedy sampling. */
int settle_sampling(generate_arguments *arguments, const clave_llm *llm);

/* Sets *bos to the token with which a text begins: by --bos if it is given, otherwise by the model.
 * CLAVE_NO_TOKEN: none. */
int settle_bos(const generate_arguments *arguments, const clave_llm *llm, int32_t *bos);

/* `arguments` are settled. bias: one entry for each --logit-bias. */
clave_sampler_options sampler_options(const generate_arguments *arguments,
                                      const clave_logit_bias *bias);

#endif
