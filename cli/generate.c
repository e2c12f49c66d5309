/* clave generate: text from a language model, or a chat with it. */
#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/chat_inputs.h"
#include "cli/files.h"
#include "cli/model.h"
#include "cli/perplexity.h"
#include "cli/progress.h"
#include "cli/speech.h"
#include "json/writer.h"

typedef struct generate_arguments {
  model_arguments model;
  const char *tokenizer, *pattern, *prompt, *prompt_ids, *output_ids, *stats_json, *system,
      *template, *tools, *documents, *perplexity;
  text_list stop, bias, template_arguments;
  int64_t max_new_tokens, top_k, seed, penalty_window, prefill_chunk, window, stride;
  double temperature, top_p, min_p, repetition, presence, frequency;
  bool chat, ignore_stop_ids;
} generate_arguments;

#define FIELD(name) offsetof(generate_arguments, name)

static const flag generate_flags[] = {
    PROGRAM_FLAGS(generate_arguments),
    {"--tokenizer", FLAG_PATH, FIELD(tokenizer), "T",
     "a tokenizer's file, or a Hugging Face folder (default: the one in the .clv)", 0, 0},
    {"--pattern", FLAG_TEXT, FIELD(pattern), "NAME",
     "of a rank file: cl100k (the default), gpt2, o200k or llama3", 0, 0},
    {"--prompt", FLAG_TEXT, FIELD(prompt), "TEXT", "what the text goes on from; -: standard input",
     0, 0},
    {"--prompt-ids", FLAG_PATH, FIELD(prompt_ids), "F",
     "the prompt as ids, separated by white space; -: standard input", 0, 0},
    {"--chat", FLAG_SWITCH, FIELD(chat), NULL,
     "the prompt is a message in the model's chat template; without one, asks for messages", 0, 0},
    {"--chat-template", FLAG_PATH, FIELD(template), "T",
     "instead of the model's own: a file as clave template takes, or a name (llama3, chatml, ...)",
     0, 0},
    {"--template-arg", FLAG_LIST, FIELD(template_arguments), "NAME=JSON",
     "what else the template asks for (enable_thinking=false); repeatable", 0, 0},
    {"--tools", FLAG_PATH, FIELD(tools), "T.json", "functions that the chat template tells of", 0,
     0},
    {"--documents", FLAG_PATH, FIELD(documents), "D.json",
     "texts that the chat template puts before the chat", 0, 0},
    {"--system", FLAG_TEXT, FIELD(system), "TEXT", "the system message, the first of the chat", 0,
     0},
    {"--max-new-tokens", FLAG_INT, FIELD(max_new_tokens), "N", "at most (default 256)", 1,
     INT32_MAX},
    {"--temperature", FLAG_NUMBER, FIELD(temperature), "T",
     "divides the logits; 0 (the default): always the likeliest token", 0, 1000000},
    {"--top-k", FLAG_INT, FIELD(top_k), "K", "only the K likeliest; 0: all", 0, INT32_MAX},
    {"--top-p", FLAG_NUMBER, FIELD(top_p), "P",
     "then the fewest with probability P together; 0 or 1: all", 0, 1},
    {"--min-p", FLAG_NUMBER, FIELD(min_p), "P",
     "then those at least P times as likely as the likeliest", 0, 1},
    {"--seed", FLAG_INT, FIELD(seed), "N", "of the sampler (default 0)", 0, INT64_MAX},
    {"--repetition-penalty", FLAG_NUMBER, FIELD(repetition), "R",
     "divides positive logits of tokens seen before, multiplies negative ones", 0, 1000000},
    {"--presence-penalty", FLAG_NUMBER, FIELD(presence), "P",
     "subtracted from logits of tokens seen before", -1000000, 1000000},
    {"--frequency-penalty", FLAG_NUMBER, FIELD(frequency), "P", "the same, for each time seen",
     -1000000, 1000000},
    {"--penalty-window", FLAG_INT, FIELD(penalty_window), "N",
     "penalties look at the last N tokens; 0 (the default): all", 0, INT32_MAX},
    {"--logit-bias", FLAG_LIST, FIELD(bias), "ID=BIAS",
     "added to a token's logit, -inf: never; repeatable", 0, 0},
    {"--stop", FLAG_LIST, FIELD(stop), "TEXT", "ends the text, and is not part of it; repeatable",
     0, 0},
    {"--ignore-stop-ids", FLAG_SWITCH, FIELD(ignore_stop_ids), NULL,
     "goes on behind the model's stop tokens", 0, 0},
    {"--prefill-chunk", FLAG_INT, FIELD(prefill_chunk), "N",
     "tokens of the prompt run at once (default 512)", 1, 1 << 16},
    {"--perplexity", FLAG_PATH, FIELD(perplexity), "F",
     "writes no text, but how well the model foretells the one in F", 0, 0},
    {"--window", FLAG_INT, FIELD(window), "N",
     "of --perplexity: tokens that are run together (default: the model's context)", 1, INT32_MAX},
    {"--stride", FLAG_INT, FIELD(stride), "N",
     "of --perplexity: from one window's beginning to the next (default: a window)", 1, INT32_MAX},
    {"--output-ids", FLAG_PATH, FIELD(output_ids), "F", "writes the new ids", 0, 0},
    {"--stats-json", FLAG_PATH, FIELD(stats_json), "F", "writes the statistics", 0, 0},
    DEVICE_FLAGS(generate_arguments),
    WARM_UP_FLAG(generate_arguments),
};

static const generate_arguments generate_defaults = {.max_new_tokens = 256};

enum { EXIT_INTERRUPTED = 130 }; /* as shells have it: 128 + SIGINT */

/* ---------------------------------------------------------------- the command line */

static int check_arguments(const generate_arguments *a) {
  if (a->prompt && a->prompt_ids) return fail_usage("--prompt and --prompt-ids exclude each other");
  if (a->chat && a->prompt_ids) return fail_usage("--chat takes no --prompt-ids");
  if (a->pattern && !a->tokenizer) return fail_usage("--pattern needs --tokenizer");
  if (a->system && !a->chat) return fail_usage("--system needs --chat");
  if (a->template && !a->chat) return fail_usage("--chat-template needs --chat");
  if (a->template_arguments.count && !a->chat) return fail_usage("--template-arg needs --chat");
  if (a->tools && !a->chat) return fail_usage("--tools needs --chat");
  if (a->documents && !a->chat) return fail_usage("--documents needs --chat");
  bool prompted = a->prompt || a->prompt_ids || a->chat;
  if (prompted && a->perplexity) return fail_usage("--perplexity takes no prompt");
  if (!prompted && !a->perplexity)
    return fail_usage("generate needs --prompt, --prompt-ids, --chat or --perplexity");
  if ((a->window || a->stride) && !a->perplexity)
    return fail_usage("--window and --stride need --perplexity");
  bool narrows = a->top_k || a->top_p > 0 || a->min_p > 0;
  if (narrows && !(a->temperature > 0))
    print_note(NULL,
               "without --temperature the likeliest token is taken, whatever --top-k, "
               "--top-p and --min-p say");
  return EXIT_GOOD;
}

static int read_bias(const text_list *list, clave_logit_bias *out) {
  for (uint32_t i = 0; i < list->count; i++) {
    char *equals, *end;
    const char *word = list->items[i];
    errno = 0;
    unsigned long long id = strtoull(word, &equals, 10);
    bool good = *word >= '0' && *word <= '9' && *equals == '=' && !errno && id <= UINT32_MAX;
    double value = good ? strtod(equals + 1, &end) : 0;
    if (!good || !equals[1] || *end)
      return fail_usage("--logit-bias takes ID=BIAS, such as 13=-1.5, not \"%s\"", word);
    out[i] = (clave_logit_bias){(uint32_t)id, (float)value};
  }
  return EXIT_GOOD;
}

/* ---------------------------------------------------------------- opening the model */

static int load_model(const generate_arguments *a, const model *m, speech *s) {
  clave_tokenizer_options tokenizer = {.size = sizeof tokenizer, .pattern = a->pattern};
  clave_llm_options options = {.size = sizeof options,
                               .tokenizer = a->tokenizer,
                               .tokenizer_options = &tokenizer,
                               .consts = a->model.consts,
                               .chat_template = a->template};
  show_progress("loading %s", a->model.program);
  TRY_STATUS(clave_llm_load(a->model.program, m->device, &options, &s->llm));
  clear_progress();
  return EXIT_GOOD;
}

static clave_sampler_options sampler_options(const generate_arguments *a,
                                             const clave_logit_bias *bias) {
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

static int open_talk(const generate_arguments *a, const model *m, const clave_logit_bias *bias,
                     speech *s) {
  clave_sampler_options sampler = sampler_options(a, bias);
  clave_session_options session = {.size = sizeof session,
                                   .warm_up = m->warm_up,
                                   .allow_custom_kernels = m->allow_custom_kernels,
                                   .progress = show_building,
                                   .progress_ctx = s,
                                   .cancel = is_interrupted};
  clave_llm_conversation_options options = {.size = sizeof options,
                                            .sampler = &sampler,
                                            .stop = a->stop.items,
                                            .n_stop = a->stop.count,
                                            .ignore_stop_ids = a->ignore_stop_ids,
                                            .prefill_chunk = (uint32_t)a->prefill_chunk,
                                            .session = &session};
  show_progress("preparing");
  TRY_STATUS(clave_llm_conversation_create(s->llm, &options, &s->talk));
  clear_progress();
  return EXIT_GOOD;
}

/* ---------------------------------------------------------------- prompts */

static int refuse_empty(const speech *s) {
  clave_llm_info info = {.size = sizeof info};
  TRY_STATUS(clave_llm_get_info(s->llm, &info));
  if (info.bos != CLAVE_NO_TOKEN) return EXIT_GOOD;
  return fail("the prompt is empty, and the model has no token to begin with");
}

static int prompt_text(const speech *s, const page *content) {
  if (!content->size) TRY_EXIT(refuse_empty(s));
  TRY_STATUS(clave_llm_prompt_text(s->talk, content->data ? content->data : "", content->size));
  return EXIT_GOOD;
}

/* Decimal numbers between white space. */
static int parse_ids(const char *name, const page *content, uint32_t *ids, size_t *n) {
  static const char space[] = " \t\r\n\v\f";
  const char *at = content->data ? content->data : "", *end = at + content->size;
  *n = 0;
  for (at += strspn(at, space); *at; at += strspn(at, space)) {
    size_t length = strcspn(at, space);
    uint64_t id = 0;
    for (size_t i = 0; i < length && id <= UINT32_MAX; i++)
      id = at[i] >= '0' && at[i] <= '9' ? 10 * id + (uint64_t)(at[i] - '0') : UINT64_MAX;
    if (id > UINT32_MAX)
      return fail("%s: \"%.*s\", number %zu, is not an id", name, (int)(length < 20 ? length : 20),
                  at, *n + 1);
    ids[(*n)++] = (uint32_t)id;
    at += length;
  }
  return at == end ? EXIT_GOOD : fail("%s: a NUL behind %zu ids", name, *n);
}

static int prompt_ids(const speech *s, const char *name, const page *content) {
  size_t n;
  uint32_t *ids = calloc(content->size / 2 + 2, sizeof *ids);
  clave_llm_info info = {.size = sizeof info};
  if (!ids) return fail_memory();
  int result = parse_ids(name, content, ids, &n);
  if (!result && n == 0) result = refuse_empty(s);
  TRY_STATUS(clave_llm_get_info(s->llm, &info));
  if (!result && n == 0) ids[n++] = (uint32_t)info.bos;
  clave_status st = result ? NULL : clave_llm_prompt(s->talk, ids, n);
  free(ids);
  return st ? fail_status(st) : result;
}

static void write_message(json_writer *j, const char *role, const char *content, size_t size) {
  emit_record(j, NULL);
  emit_string(j, "role", role);
  emit_text(j, "content", content, size);
  emit_end_object(j);
}

static int prompt_message(const generate_arguments *a, speech *s, const page *content, bool first) {
  page *messages = &s->chat.messages;
  json_writer j = {.out = messages};
  text_clear(messages);
  emit_list(&j, NULL);
  if (first && a->system) write_message(&j, "system", a->system, strlen(a->system));
  write_message(&j, "user", content->data ? content->data : "", content->size);
  emit_end_array(&j);
  if (messages->failed) return fail_memory();
  clave_template_inputs in = chat_template_inputs(&s->chat);
  TRY_STATUS(clave_llm_prompt_messages(s->talk, &in));
  return EXIT_GOOD;
}

/* The template's tokens that are text to the tokenizer: the model was not trained on those. */
static int note_unknown_tokens(const speech *s) {
  char *tokens;
  page note = {0};
  TRY_STATUS(clave_llm_chat_unknown_tokens(s->llm, &tokens));
  text_printf(&note, "the chat template writes %s, which the tokenizer does not know as tokens",
              tokens);
  if (*tokens && !note.failed) print_note(NULL, note.data);
  text_free(&note);
  clave_text_free(tokens);
  return EXIT_GOOD;
}

/* ---------------------------------------------------------------- the command */

/* Standard input may be read before the model is loaded: what is wrong with it shows at once. */
static int read_prompt(const generate_arguments *a, page *out) {
  if (a->prompt_ids) return read_file(a->prompt_ids, out);
  if (!a->prompt || strcmp(a->prompt, "-") == 0) return read_file("-", out);
  text_puts(out, a->prompt);
  return out->failed ? fail_memory() : EXIT_GOOD;
}

static int answer_prompt(const generate_arguments *a, speech *s, const page *content) {
  if (a->chat) {
    TRY_EXIT(prompt_message(a, s, content, true));
  } else if (a->prompt_ids) {
    TRY_EXIT(prompt_ids(s, a->prompt_ids, content));
  } else {
    TRY_EXIT(prompt_text(s, content));
  }
  show_progress("preparing");
  return speak(s);
}

/* Waits until standard input has something. An interrupt that comes between a look at it and the
 * wait ends the wait, too: it is let through only there. */
static bool wait_for_input(void) {
  struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};
  sigset_t interrupts, before;
  int ready = 0;
  (void)sigemptyset(&interrupts);
  (void)sigaddset(&interrupts, SIGINT);
  (void)sigprocmask(SIG_BLOCK, &interrupts, &before);
  while (ready <= 0 && !is_interrupted(NULL)) {
    ready = ppoll(&input, 1, NULL, &before);
    if (ready < 0 && errno != EINTR) break;
  }
  (void)sigprocmask(SIG_SETMASK, &before, NULL);
  return ready > 0;
}

/* -1: the input has ended, or Ctrl-C was typed. */
static int read_line(page *line) {
  line->size = 0;
  for (char c;; text_append(line, &c, 1)) {
    if (!wait_for_input()) return -1;
    if (read(STDIN_FILENO, &c, 1) <= 0) return line->size ? EXIT_GOOD : -1;
    if (c == '\n') return line->failed ? fail_memory() : EXIT_GOOD;
  }
}

static bool stopped_by(const speech *s, const char *reason) {
  return s->stop_reason && strcmp(s->stop_reason, reason) == 0;
}

static int answer_line(const generate_arguments *a, speech *s, const page *line, bool first) {
  TRY_EXIT(prompt_message(a, s, line, first));
  TRY_EXIT(speak(s));
  TRY_EXIT(write_output("\n", 1));
  if (stopped_by(s, "max_new_tokens")) print_note(NULL, "cut off by --max-new-tokens");
  return EXIT_GOOD;
}

/* Lines in, answers out, until the input ends. Ctrl-C ends an answer; at the prompt, the chat. */
static int converse(const generate_arguments *a, speech *s) {
  const char *full = clave_llm_stop_name(CLAVE_LLM_CONTEXT_FULL);
  page line = {0};
  int result = EXIT_GOOD;
  bool first = true;
  while (!result && !stopped_by(s, full)) {
    (void)fputs("> ", stderr);
    result = read_line(&line);
    if (result || !line.size) continue;
    result = answer_line(a, s, &line, first);
    first = false;
    if (!result) forget_interrupt();
  }
  text_free(&line);
  if (stopped_by(s, full)) print_note(NULL, "the model's context is full");
  return result < 0 ? EXIT_GOOD : result;
}

static int score(const generate_arguments *a, speech *s) {
  perplexity measured;
  TRY_EXIT(measure_perplexity(s, a->perplexity, a->window, a->stride, &measured));
  if (a->stats_json) TRY_EXIT(write_perplexity(s, &measured, a->stats_json));
  TRY_EXIT(print_perplexity(&measured));
  return is_interrupted(NULL) ? EXIT_INTERRUPTED : EXIT_GOOD;
}

static int report(const generate_arguments *a, const speech *s) {
  if (a->output_ids) TRY_EXIT(write_ids(s, a->output_ids));
  if (a->stats_json) TRY_EXIT(write_statistics(s, a->stats_json));
  if (s->stop_reason) print_statistics(s);
  return is_interrupted(NULL) ? EXIT_INTERRUPTED : EXIT_GOOD;
}

static int generate(const generate_arguments *a, const clave_logit_bias *bias, model *m, speech *s,
                    page *prompt) {
  TRY_EXIT(read_warm_up(&a->model, &m->warm_up));
  TRY_EXIT(read_chat_arguments("--template-arg", &a->template_arguments, &s->chat.arguments));
  TRY_EXIT(read_chat_file(a->tools, &s->chat.tools));
  TRY_EXIT(read_chat_file(a->documents, &s->chat.documents));
  bool interactive = a->chat && !a->prompt && isatty(STDIN_FILENO);
  if (!interactive && !a->perplexity) TRY_EXIT(read_prompt(a, prompt));
  TRY_EXIT(open_device(&a->model, m));
  TRY_EXIT(load_model(a, m, s));
  if (a->chat) TRY_EXIT(note_unknown_tokens(s));
  TRY_EXIT(open_talk(a, m, bias, s));
  catch_interrupts();
  if (a->perplexity) return score(a, s);
  TRY_EXIT(interactive ? converse(a, s) : answer_prompt(a, s, prompt));
  return report(a, s);
}

static int run_generate(const void *arguments, page *out) {
  const generate_arguments *a = arguments;
  (void)out;
  model m = {0};
  speech s = {.max_new_tokens = a->max_new_tokens};
  page prompt = {0};
  clave_logit_bias *bias = calloc((size_t)a->bias.count + 1, sizeof *bias);
  int result = bias ? check_arguments(a) : fail_memory();
  if (!result) result = read_bias(&a->bias, bias);
  if (!result) result = generate(a, bias, &m, &s, &prompt);
  clave_llm_conversation_destroy(s.talk);
  clave_llm_destroy(s.llm);
  close_model(&m);
  free(s.ids);
  free_chat_inputs(&s.chat);
  free(bias);
  text_free(&prompt);
  return result;
}

const command generate_command = {
    .name = "generate",
    .usage = "generate PROG (--prompt TEXT | --prompt-ids F | --chat) [--tokenizer T] ...",
    .summary = "Writes text with a language model, or chats with it.",
    .more =
        "The text goes to standard output as it is made, statistics to standard error.\n"
        "Ctrl-C ends it at the next token, with exit status 130.\n\n"
        "clave generate model.clv --prompt \"Once upon a time\"\n"
        "clave generate model.clv --chat --system \"Answer in one sentence.\"\n",
    .flags = generate_flags,
    .n_flags = LENGTH(generate_flags),
    .defaults = &generate_defaults,
    .arguments_size = sizeof(generate_arguments),
    .run = run_generate,
};
