/* clave generate: generates text with a language model, or chats with it. */
#include <errno.h>
#include <float.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/number.h"
#include "cli/chat.h"
#include "cli/files.h"
#include "cli/interrupts.h"
#include "cli/perplexity.h"
#include "cli/progress.h"

#define FIELD(name) offsetof(generate_arguments, name)

static const flag generate_flags[] = {
    PROGRAM_FLAGS(generate_arguments),
    {"--tokenizer", FLAG_PATH, FIELD(tokenizer), "T",
     "a tokenizer file, or a Hugging Face model folder (default: the tokenizer in the .clv)", 0, 0},
    {"--pattern", FLAG_TEXT, FIELD(pattern), "NAME",
     "split pattern of a tiktoken rank file: cl100k (default), gpt2, o200k or llama3", 0, 0},
    {"--prompt", FLAG_TEXT, FIELD(prompt), "TEXT",
     "the prompt that the model continues; -: standard input", 0, 0},
    {"--prompt-file", FLAG_PATH, FIELD(prompt_file), "F", "reads the prompt from a file", 0, 0},
    {"--prompt-ids", FLAG_PATH, FIELD(prompt_ids), "F",
     "reads the prompt as token ids separated by white space; -: standard input", 0, 0},
    {"--bos", FLAG_TEXT, FIELD(bos), "auto|yes|no",
     "adds the model's BOS token before a prompt or a --perplexity window (default: auto: before "
     "text if the model requests it, never before token ids)",
     0, 0},
    {"--chat", FLAG_SWITCH, FIELD(chat), NULL,
     "treats the prompt as a chat message; without a prompt, an interactive chat, where /help "
     "lists the commands",
     0, 0},
    {"--chat-file", FLAG_PATH, FIELD(chat_file), "M.json",
     "chat messages, a list of {\"role\": ..., \"content\": ...}; answers each user message that "
     "has no answer, in order",
     0, 0},
    {"--system", FLAG_TEXT, FIELD(system), "TEXT",
     "system message of the chat, which tells the model how to behave", 0, 0},
    {"--chat-template", FLAG_PATH, FIELD(template), "T",
     "chat template that replaces the model's: a file (see clave template) or a name (llama3, "
     "chatml, ...)",
     0, 0},
    {"--template-arg", FLAG_LIST, FIELD(template_arguments), "NAME=JSON",
     "a variable of the chat template (enable_thinking=false); repeatable", 0, 0},
    {"--tools", FLAG_PATH, FIELD(tools), "T.json",
     "functions that the model may call, passed to the chat template", 0, 0},
    {"--documents", FLAG_PATH, FIELD(documents), "D.json",
     "documents to answer from, passed to the chat template", 0, 0},
    {"--max-new-tokens", FLAG_INT, FIELD(max_new_tokens), "N",
     "maximum number of tokens per answer (default 256; in a chat: until the model stops)", 1,
     INT32_MAX},
    {"--max-context", FLAG_INT, FIELD(max_context), "N",
     "limits the context to N tokens, prompts and answers together (default: the program's "
     "maximum)",
     2, UINT32_MAX},
    {"--kv", FLAG_TEXT, FIELD(kv), "TYPE",
     "element type of the cache of a .gguf model: f32, f16 (default), bf16 or int8", 0, 0},
    {"--sampling", FLAG_TEXT, FIELD(sampling), "HOW",
     "greedy: the most likely token; model: the settings stored in the model's file; the options "
     "below override both (default: greedy; in a chat: model)",
     0, 0},
    {"--temperature", FLAG_NUMBER, FIELD(temperature), "T",
     "sampling temperature, such as 0.8; 0: always the most likely token", 0, 1000000},
    {"--top-k", FLAG_INT, FIELD(top_k), "K",
     "samples only from the K most likely tokens; 0: from all", 0, INT32_MAX},
    {"--top-p", FLAG_NUMBER, FIELD(top_p), "P",
     "then keeps the fewest tokens whose probabilities sum to P; 0 or 1: keeps all", 0, 1},
    {"--min-p", FLAG_NUMBER, FIELD(min_p), "P",
     "then keeps tokens at least P times as likely as the most likely one", 0, 1},
    {"--seed", FLAG_INT, FIELD(seed), "N", "random seed (default 0)", 0, INT64_MAX},
    {"--repetition-penalty", FLAG_NUMBER, FIELD(repetition), "R",
     "divides positive logits of tokens seen before by R, and multiplies negative ones", 0,
     1000000},
    {"--presence-penalty", FLAG_NUMBER, FIELD(presence), "P",
     "subtracted from the logits of tokens seen before", -1000000, 1000000},
    {"--frequency-penalty", FLAG_NUMBER, FIELD(frequency), "P",
     "subtracted once for each time that the token was seen", -1000000, 1000000},
    {"--penalty-window", FLAG_INT, FIELD(penalty_window), "N",
     "applies penalties to the last N tokens; 0 (default): to all", 0, INT32_MAX},
    {"--logit-bias", FLAG_LIST, FIELD(bias), "ID=BIAS",
     "adds BIAS to a token's logit; -inf: never generates the token; repeatable", 0, 0},
    {"--stop", FLAG_LIST, FIELD(stop), "TEXT",
     "stop text: ends the answer and is not printed; repeatable", 0, 0},
    {"--ignore-stop-ids", FLAG_SWITCH, FIELD(ignore_stop_ids), NULL,
     "does not stop at the model's stop tokens", 0, 0},
    {"--prefill-chunk", FLAG_INT, FIELD(prefill_chunk), "N",
     "number of prompt tokens per prefill run (default 512)", 1, 1 << 16},
    {"--perplexity", FLAG_PATH, FIELD(perplexity), "F",
     "measures the perplexity of the text in F instead of generating text", 0, 0},
    {"--window", FLAG_INT, FIELD(window), "N",
     "with --perplexity: tokens per window (default: the model's context)", 1, INT32_MAX},
    {"--stride", FLAG_INT, FIELD(stride), "N",
     "with --perplexity: tokens between the starts of two windows (default: the window size)", 1,
     INT32_MAX},
    {"--output-ids", FLAG_WRITTEN, FIELD(output_ids), "F", "writes the generated token ids", 0, 0},
    {"--logprobs", FLAG_WRITTEN, FIELD(logprobs), "F",
     "writes the log-probability of each new token and of the most likely tokens, as JSON lines", 0,
     0},
    {"--top-logprobs", FLAG_INT, FIELD(top_logprobs), "N",
     "with --logprobs: number of most likely tokens to write (default 5)", 0, 1000},
    {"--verbose-prompt", FLAG_SWITCH, FIELD(verbose_prompt), NULL,
     "prints the prompt's tokens to standard error", 0, 0},
    {"--color", FLAG_SWITCH, FIELD(color), NULL, "colors your messages in a chat", 0, 0},
    {"--stats-json", FLAG_WRITTEN, FIELD(stats_json), "F", "writes statistics as JSON", 0, 0},
    DEVICE_FLAGS(generate_arguments),
    {"--threads", FLAG_INT, FIELD(model.threads), "N",
     "number of threads of the CPU backend (default: CLAVE_THREADS, else one per CPU)", 1, 4096},
    WARM_UP_FLAG(generate_arguments),
};

/* The same letters as in llama.cpp. */
static const short_flag generate_shorts[] = {
    {'m', "PROG"},          {'p', "--prompt"},  {'f', "--prompt-file"}, {'n', "--max-new-tokens"},
    {'c', "--max-context"}, {'t', "--threads"}, {'s', "--seed"}};

static const other_name generate_others[] = {{"--max-tokens", "--max-new-tokens"},
                                             {"--max-length", "--max-new-tokens"},
                                             {"--n-predict", "--max-new-tokens"},
                                             {"--num-predict", "--max-new-tokens"},
                                             {"--predict", "--max-new-tokens"},
                                             {"--ctx-size", "--max-context"},
                                             {"--num-ctx", "--max-context"},
                                             {"--n-ctx", "--max-context"},
                                             {"--max-model-len", "--max-context"},
                                             {"--context-length", "--max-context"},
                                             {"--temp", "--temperature"},
                                             {"--repeat-penalty", "--repetition-penalty"},
                                             {"--repeat-last-n", "--penalty-window"},
                                             {"--stop-sequences", "--stop"},
                                             {"--stop-sequence", "--stop"},
                                             {"--reverse-prompt", "--stop"},
                                             {"--ignore-eos", "--ignore-stop-ids"},
                                             {"--batch-size", "--prefill-chunk"},
                                             {"--ubatch-size", "--prefill-chunk"},
                                             {"--n-probs", "--top-logprobs"},
                                             {"--file", "--prompt-file"},
                                             {"--conversation", "--chat"},
                                             {"--interactive", "--chat"},
                                             {"--system-prompt", "--system"},
                                             {"--chat-template-file", "--chat-template"},
                                             {"--chat-template-kwargs", "--template-arg"}};

enum { DEFAULT_NEW_TOKENS = 256, DEFAULT_TOP = 5 };
static const generate_arguments generate_defaults = {.top_logprobs = DEFAULT_TOP,
                                                     SAMPLING_NOT_GIVEN};

enum { EXIT_INTERRUPTED = 130 }; /* 128 + SIGINT, as in shells */

/* ---------------------------------------------------------------- the command line */

/* Rejects options that only chats have. */
static int cli_generate_check_chat(const generate_arguments *arguments) {
  const struct {
    const char *name;
    bool given;
  } flags[] = {{"--system", arguments->system},
               {"--chat-template", arguments->template},
               {"--template-arg", arguments->template_arguments.count},
               {"--tools", arguments->tools},
               {"--documents", arguments->documents}};
  for (size_t i = 0; i < LENGTH(flags) && !is_chat(arguments); i++) {
    if (flags[i].given) return fail_usage("%s needs --chat", flags[i].name);
  }
  if (arguments->chat_file && (arguments->prompt || arguments->prompt_file))
    return fail_usage(
        "--chat-file excludes --prompt and --prompt-file, because the file has the messages");
  return is_chat(arguments) && arguments->prompt_ids
             ? fail_usage("--chat and --prompt-ids exclude each other")
             : EXIT_GOOD;
}

static int check_arguments(const generate_arguments *arguments) {
  if (arguments->prompt && arguments->prompt_ids)
    return fail_usage("--prompt and --prompt-ids exclude each other");
  if (arguments->prompt_file && (arguments->prompt || arguments->prompt_ids))
    return fail_usage("--prompt-file and %s exclude each other",
                      arguments->prompt ? "--prompt" : "--prompt-ids");
  if (arguments->pattern && !arguments->tokenizer) return fail_usage("--pattern needs --tokenizer");
  TRY_EXIT(cli_generate_check_chat(arguments));
  bool prompted =
      arguments->prompt || arguments->prompt_file || arguments->prompt_ids || is_chat(arguments);
  if (prompted && arguments->perplexity)
    return fail_usage("--perplexity excludes a prompt, because F has the text");
  if (!prompted && !arguments->perplexity)
    return fail_usage("generate needs --prompt, --prompt-ids, --chat or --perplexity");
  if ((arguments->window || arguments->stride) && !arguments->perplexity)
    return fail_usage("--window and --stride need --perplexity");
  static const char *const choices[] = {"auto", "yes", "no"};
  bool known = !arguments->bos;
  for (size_t i = 0; i < LENGTH(choices) && !known; i++)
    known = strcmp(arguments->bos, choices[i]) == 0;
  if (!known) return fail_usage("--bos: expected auto, yes or no, got \"%s\"", arguments->bos);
  if (arguments->bos && is_chat(arguments))
    return fail_usage(
        "--bos and --chat exclude each other, because the chat template writes the BOS token");
  if (arguments->top_logprobs != DEFAULT_TOP && !arguments->logprobs)
    return fail_usage("--top-logprobs needs --logprobs");
  bool of_model = arguments->sampling && strcmp(arguments->sampling, "model") == 0;
  if (arguments->sampling && !of_model && strcmp(arguments->sampling, "greedy") != 0)
    return fail_usage("--sampling: expected greedy or model, got \"%s\"", arguments->sampling);
  bool narrows = arguments->top_k > 0 || arguments->top_p > 0 || arguments->min_p > 0;
  bool chats = !arguments->sampling && is_chat(arguments) && arguments->temperature < 0;
  bool samples = arguments->temperature > 0 || of_model || chats;
  if (narrows && !samples)
    print_note(NULL,
               "--top-k, --top-p and --min-p have no effect without --temperature: each token is "
               "the most likely one");
  return EXIT_GOOD;
}

static int read_bias(const text_list *list, clave_logit_bias *out) {
  for (uint32_t i = 0; i < list->count; i++) {
    char *equals, *end;
    const char *word = list->items[i];
    errno = 0;
    unsigned long long id = strtoull(word, &equals, 10);
    bool good = *word >= '0' && *word <= '9' && *equals == '=' && !errno && id <= UINT32_MAX;
    double value = good ? number_read(equals + 1, &end) : 0;
    bool finite = good && (value == -HUGE_VAL || fabs(value) <= (double)FLT_MAX);
    if (!good || !equals[1] || *end || !finite)
      return fail_usage("--logit-bias: expected ID=BIAS, such as 13=-1.5, got \"%s\"", word);
    for (uint32_t k = 0; k < i; k++)
      if (out[k].id == id) return fail_usage("--logit-bias %llu is given twice", id);
    out[i] = (clave_logit_bias){(uint32_t)id, (float)value};
  }
  return EXIT_GOOD;
}

/* ---------------------------------------------------------------- opening the model */

static int load_model(const generate_arguments *arguments, const model *model, speech *speech) {
  clave_tokenizer_options tokenizer = {.size = sizeof tokenizer, .pattern = arguments->pattern};
  clave_llm_options options = {.size = sizeof options,
                               .tokenizer = arguments->tokenizer,
                               .tokenizer_options = &tokenizer,
                               .consts = arguments->model.consts,
                               .chat_template = arguments->template,
                               .clv = arguments->model.clv,
                               .clv_size = arguments->model.clv_size,
                               .max_context = (uint32_t)arguments->max_context,
                               .kv = arguments->kv};
  show_progress("loading %s", arguments->model.program);
  TRY_STATUS(clave_llm_load(arguments->model.program, model->device, &options, &speech->llm));
  clear_progress();
  return EXIT_GOOD;
}

static int open_talk(const generate_arguments *arguments, const model *model,
                     const clave_logit_bias *bias, speech *speech) {
  clave_sampler_options sampler = sampler_options(arguments, bias);
  clave_session_options session = {.size = sizeof session,
                                   .warm_up = model->warm_up,
                                   .allow_custom_kernels = model->allow_custom_kernels,
                                   .progress = show_building,
                                   .progress_ctx = speech,
                                   .cancel = is_interrupted};
  clave_llm_conversation_options options = {.size = sizeof options,
                                            .sampler = &sampler,
                                            .stop = arguments->stop.items,
                                            .n_stop = arguments->stop.count,
                                            .ignore_stop_ids = arguments->ignore_stop_ids,
                                            .prefill_chunk = (uint32_t)arguments->prefill_chunk,
                                            .session = &session};
  show_progress("preparing");
  TRY_STATUS(clave_llm_conversation_create(speech->llm, &options, &speech->talk));
  clear_progress();
  return EXIT_GOOD;
}

/* ---------------------------------------------------------------- prompts */

static int refuse_empty(const generate_arguments *arguments) {
  bool without_bos = arguments->bos && strcmp(arguments->bos, "no") == 0;
  return without_bos ? fail("the prompt is empty, and --bos no adds no token to it")
                     : fail("the prompt is empty, and the model has no BOS token to add to it");
}

/* Same as clave_llm_prompt_text, but with the given BOS, or none. */
static int cli_generate_prompt_encoded(const speech *speech, const page *content, int32_t bos) {
  clave_llm_info info = {.size = sizeof info};
  clave_ids ids;
  TRY_STATUS(clave_llm_get_info(speech->llm, &info));
  if (!info.tokenizer)
    return fail("a text prompt needs a tokenizer: pass --tokenizer, or token ids by --prompt-ids");
  TRY_STATUS(clave_tokenizer_encode(info.tokenizer, content->data ? content->data : "",
                                    content->size, NULL, &ids));
  const uint32_t first = (uint32_t)bos;
  bool spelt = bos == CLAVE_NO_TOKEN || (ids.count && ids.items[0] == first);
  clave_status st = spelt ? NULL : clave_llm_prompt(speech->talk, &first, 1);
  if (!st) st = clave_llm_prompt(speech->talk, ids.items, ids.count);
  clave_ids_free(&ids);
  return st ? fail_status(st) : EXIT_GOOD;
}

static int prompt_text(const generate_arguments *arguments, const speech *speech,
                       const page *content) {
  int32_t bos;
  TRY_EXIT(settle_bos(arguments, speech->llm, &bos));
  if (!content->size && bos == CLAVE_NO_TOKEN) return refuse_empty(arguments);
  if (arguments->bos) return cli_generate_prompt_encoded(speech, content, bos);
  TRY_STATUS(
      clave_llm_prompt_text(speech->talk, content->data ? content->data : "", content->size));
  return EXIT_GOOD;
}

/* Parses decimal numbers separated by white space. */
static int parse_ids(const char *name, const page *content, uint32_t *ids, size_t *count) {
  static const char space[] = " \t\r\n\v\f";
  const char *at = content->data ? content->data : "", *end = at + content->size;
  *count = 0;
  for (at += strspn(at, space); *at; at += strspn(at, space)) {
    size_t length = strcspn(at, space);
    uint64_t id = 0;
    for (size_t i = 0; i < length && id <= UINT32_MAX; i++)
      id = at[i] >= '0' && at[i] <= '9' ? 10 * id + (uint64_t)(at[i] - '0') : UINT64_MAX;
    if (id > UINT32_MAX)
      return fail("%s: expected a token id, got \"%.*s\" as number %zu", name,
                  (int)(length < 20 ? length : 20), at, *count + 1);
    ids[(*count)++] = (uint32_t)id;
    at += length;
  }
  return at == end ? EXIT_GOOD : fail("%s: unexpected NUL byte after %zu token ids", name, *count);
}

static int prompt_ids(const generate_arguments *arguments, const speech *speech,
                      const page *content) {
  size_t n;
  int32_t bos;
  TRY_EXIT(settle_bos(arguments, speech->llm, &bos));
  uint32_t *ids = calloc(content->size / 2 + 3, sizeof *ids);
  if (!ids) return fail_memory();
  int result = parse_ids(arguments->prompt_ids, content, ids + 1, &n);
  bool begins =
      n == 0 || (arguments->bos && strcmp(arguments->bos, "yes") == 0 && ids[1] != (uint32_t)bos);
  if (!result && n == 0 && bos == CLAVE_NO_TOKEN) result = refuse_empty(arguments);
  ids[0] = (uint32_t)bos;
  clave_status st = result ? NULL : clave_llm_prompt(speech->talk, ids + !begins, n + begins);
  free(ids);
  return st ? fail_status(st) : result;
}

/* Fails if the model has no chat template or it cannot be parsed. */
static int check_template(const generate_arguments *arguments, const speech *speech) {
  clave_llm_info info = {.size = sizeof info};
  clave_template *template = NULL;
  TRY_STATUS(clave_llm_get_info(speech->llm, &info));
  const char *source = info.chat_template;
  if (!source)
    return fail("%s has no chat template: pass --chat-template with a file or a name (%s, %s, ...)",
                arguments->model.program, clave_template_builtin(0), clave_template_builtin(2));
  clave_status st =
      strchr(source, '{') ? clave_template_create(source, strlen(source), &template) : NULL;
  clave_template_destroy(template);
  if (!st) return EXIT_GOOD;
  int result =
      fail("chat template: %s; --chat-template selects another one", clave_status_message(st));
  clave_status_free(st);
  return result;
}

static int cli_generate_note_ignored(const speech *speech) {
  const clave_template_inputs in = chat_template_inputs(&speech->chat);
  bool tools, documents;
  clave_status st = clave_llm_template_ignores(speech->llm, &in, &tools, &documents);
  return note_ignored_inputs(st, tools, documents);
}

/* Prints a note about special tokens of the template that the tokenizer encodes as plain text, on
 * which the model was not trained. */
static int note_unknown_tokens(const speech *speech) {
  char *tokens;
  page note = {0};
  TRY_STATUS(clave_llm_chat_unknown_tokens(speech->llm, &tokens));
  text_printf(&note,
              "the chat template writes %s, which the tokenizer does not encode as special tokens",
              tokens);
  if (*tokens && !note.failed) print_note(NULL, note.data);
  text_free(&note);
  clave_text_free(tokens);
  return EXIT_GOOD;
}

/* ---------------------------------------------------------------- the command */

/* Reads the prompt. Called before the model is loaded, so that errors are reported at once. */
static int read_prompt(const generate_arguments *arguments, page *out) {
  if (arguments->chat_file) return read_chat_file(arguments->chat_file, "messages", out);
  if (arguments->prompt_ids) return read_file(arguments->prompt_ids, out);
  if (arguments->prompt_file) return read_file(arguments->prompt_file, out);
  if (!arguments->prompt || strcmp(arguments->prompt, "-") == 0) return read_file("-", out);
  text_puts(out, arguments->prompt);
  return out->failed ? fail_memory() : EXIT_GOOD;
}

static int answer_prompt(const generate_arguments *arguments, speech *speech, const page *content) {
  clave_llm_stats stats;
  if (arguments->prompt_ids) {
    TRY_EXIT(prompt_ids(arguments, speech, content));
  } else {
    TRY_EXIT(prompt_text(arguments, speech, content));
  }
  clave_llm_get_stats(speech->talk, &stats);
  TRY_EXIT(show_prompt(speech, stats.prompt_tokens));
  show_progress("preparing");
  return speak(speech);
}

static int answer_chat(const generate_arguments *arguments, const clave_logit_bias *bias,
                       speech *speech, bool interactive, const page *content) {
  chat chat = {.options = *arguments,
               .settings = &generate_command,
               .bias = bias,
               .speech = speech,
               .has_system = arguments->system};
  chat.options.max_new_tokens = speech->max_new_tokens;
  text_puts(&chat.system, arguments->system ? arguments->system : "");
  const char *message = content->data ? content->data : "";
  int result = chat.system.failed     ? fail_memory()
               : interactive          ? converse(&chat)
               : arguments->chat_file ? answer_script(&chat, arguments->chat_file, content)
                                      : answer_message(&chat, message, content->size);
  text_free(&chat.system);
  return result;
}

static int score(const generate_arguments *arguments, speech *speech) {
  perplexity measured;
  int32_t bos;
  TRY_EXIT(settle_bos(arguments, speech->llm, &bos));
  TRY_EXIT(measure_perplexity(speech, arguments->perplexity, arguments->window, arguments->stride,
                              bos, &measured));
  if (arguments->stats_json) TRY_EXIT(write_perplexity(speech, &measured, arguments->stats_json));
  TRY_EXIT(print_perplexity(&measured));
  return is_interrupted(NULL) ? EXIT_INTERRUPTED : EXIT_GOOD;
}

static int cli_generate_report(const generate_arguments *arguments, const speech *speech) {
  if (arguments->output_ids) TRY_EXIT(write_ids(speech, arguments->output_ids));
  if (arguments->logprobs) TRY_EXIT(write_logprobs(speech));
  if (arguments->stats_json) TRY_EXIT(write_statistics(speech, arguments->stats_json));
  if (speech->stop_reason) print_statistics(speech);
  return is_interrupted(NULL) ? EXIT_INTERRUPTED : EXIT_GOOD;
}

static int cli_generate(generate_arguments *arguments, const clave_logit_bias *bias, model *model,
                        speech *speech, page *prompt) {
  TRY_EXIT(read_warm_up(&arguments->model, &model->warm_up));
  TRY_EXIT(read_chat_arguments("--template-arg", &arguments->template_arguments,
                               &speech->chat.arguments));
  TRY_EXIT(read_chat_file(arguments->tools, "functions", &speech->chat.tools));
  TRY_EXIT(read_chat_file(arguments->documents, "documents", &speech->chat.documents));
  bool given = arguments->prompt || arguments->prompt_file || arguments->chat_file;
  bool interactive = arguments->chat && !given && isatty(STDIN_FILENO);
  if (!interactive && !arguments->perplexity) TRY_EXIT(read_prompt(arguments, prompt));
  TRY_EXIT(open_device(&arguments->model, model));
  TRY_EXIT(load_model(arguments, model, speech));
  TRY_EXIT(settle_sampling(arguments, speech->llm));
  if (is_chat(arguments)) TRY_EXIT(check_template(arguments, speech));
  if (is_chat(arguments)) TRY_EXIT(note_unknown_tokens(speech));
  if (is_chat(arguments)) TRY_EXIT(cli_generate_note_ignored(speech));
  TRY_EXIT(open_talk(arguments, model, bias, speech));
  catch_interrupts();
  if (arguments->perplexity) return score(arguments, speech);
  TRY_EXIT(is_chat(arguments) ? answer_chat(arguments, bias, speech, interactive, prompt)
                              : answer_prompt(arguments, speech, prompt));
  return cli_generate_report(arguments, speech);
}

static int begin_speech(const generate_arguments *arguments, speech *reply) {
  int64_t otherwise = is_chat(arguments) ? INT64_MAX : DEFAULT_NEW_TOKENS;
  *reply =
      (speech){.max_new_tokens = arguments->max_new_tokens ? arguments->max_new_tokens : otherwise,
               .verbose = arguments->verbose_prompt,
               .logprobs = arguments->logprobs,
               .n_top = (size_t)arguments->top_logprobs,
               .top = calloc((size_t)arguments->top_logprobs + 1, sizeof *reply->top)};
  return reply->top ? EXIT_GOOD : fail_memory();
}

static int run_generate(const void *arguments, page *out) {
  generate_arguments settled = *(const generate_arguments *)arguments, *given = &settled;
  (void)out;
  model model = {0};
  speech speech;
  page prompt = {0};
  clave_logit_bias *bias = calloc((size_t)given->bias.count + 1, sizeof *bias);
  int result = begin_speech(given, &speech);
  if (!result) result = bias ? check_arguments(given) : fail_memory();
  if (!result) result = read_bias(&given->bias, bias);
  if (!result) result = cli_generate(given, bias, &model, &speech, &prompt);
  clave_llm_conversation_destroy(speech.talk);
  clave_llm_destroy(speech.llm);
  close_model(&model);
  free_speech(&speech);
  free(bias);
  text_free(&prompt);
  return result;
}

const command generate_command = {
    .name = "generate",
    .usage = "generate PROG (--prompt TEXT | --prompt-ids F | --chat | --chat-file M.json) ...",
    .summary = "Generates text with a language model, or chats with it.",
    .more =
        "Writes text to standard output as it is generated, and statistics to standard error.\n"
        "Ctrl-C stops at the next token, with exit status 130. A chat with a model whose file has\n"
        "no sampling settings uses temperature 0.8 and min-p 0.05.\n\n"
        "clave generate model.clv --prompt \"Once upon a time\"\n"
        "clave generate model.clv --chat --system \"Answer in one sentence.\"\n",
    .flags = generate_flags,
    .n_flags = LENGTH(generate_flags),
    .shorts = generate_shorts,
    .n_shorts = LENGTH(generate_shorts),
    .others = generate_others,
    .n_others = LENGTH(generate_others),
    .defaults = &generate_defaults,
    .arguments_size = sizeof(generate_arguments),
    .run = run_generate,
};
