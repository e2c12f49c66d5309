/* Faults in the calls of a conversation (load, prompt, answer, fork, save, restore, chat, reset),
 * and in those of its tokenizer and its sampler alone. The ids must equal those of a run without
 * failures.
 *
 *   run_talk_faults alloc|calls PROGRAM TOKENIZER DEVICE SCRATCH_FILE [FIRST STEP] */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "clave_llm.h"
#include "test/fault/loop.h"

enum { TOKENS = 4, MAX_IDS = 200 };

typedef struct scenario {
  const char *program, *tokenizer, *device_name, *scratch;
  clave_device *device;
  clave_program *carrier; /* a program that contains the tokenizer */
  clave_tokenizer *carried;
  clave_sampler *sampler;
  clave_llm *llm;
  clave_llm_conversation *talk, *fork;
  uint32_t ids[MAX_IDS];
  size_t n_ids;
} scenario;

/* A failed call leaves the conversation unchanged, so the token is requested again. */
static clave_status answer(clave_llm_conversation *talk) {
  for (int i = 0; i < TOKENS; i++) {
    clave_llm_token token;
    clave_status st = clave_llm_next(talk, &token);
    if (!st) continue;
    clave_status_free(st);
    TRY(clave_llm_next(talk, &token));
  }
  return NULL;
}

/* After an error, the conversations that have no token yet are called again. */
static clave_status answer_both(scenario *scenario) {
  clave_llm_conversation *both[] = {scenario->talk, scenario->fork};
  clave_llm_token tokens[2];
  for (int i = 0; i < TOKENS; i++) {
    size_t done, rest;
    clave_status st = clave_llm_next_each(both, 2, tokens, &done);
    if (!st) continue;
    clave_status_free(st);
    TRY(clave_llm_next_each(both + done, 2 - done, tokens, &rest));
  }
  return NULL;
}

static clave_status open_talk(scenario *scenario) {
  static const char *const stops[] = {"never", "there"};
  static const clave_logit_bias bias = {5, -1};
  clave_llm_options options = {
      .size = sizeof options, .chat_template = "chatml", .tokenizer = scenario->tokenizer};
  clave_device_options device = {.size = sizeof device, .n_threads = 1};
  clave_sampler_options sampler = {.size = sizeof sampler,
                                   .bias = &bias,
                                   .n_bias = 1,
                                   .temperature = 1,
                                   .top_k = 50,
                                   .top_p = 0.9F,
                                   .presence_penalty = 0.1F};
  clave_llm_conversation_options talk = {
      .size = sizeof talk, .sampler = &sampler, .stop = stops, .n_stop = 2};
  TRY(clave_device_open(scenario->device_name, &device, &scenario->device));
  TRY(clave_llm_load(scenario->program, scenario->device, &options, &scenario->llm));
  return clave_llm_conversation_create(scenario->llm, &talk, &scenario->talk);
}

/* Makes a tokenizer from bytes, stores it in a program and loads it from there. */
static clave_status carry_tokenizer(scenario *scenario) {
  static char bytes[1 << 16];
  FILE *file = fopen(scenario->tokenizer, "rb");
  size_t n = file ? fread(bytes, 1, sizeof bytes, file) : 0;
  if (file) (void)fclose(file);
  TRY(clave_tokenizer_create(bytes, n, NULL, &scenario->carried));
  clave_tokenizer_destroy(scenario->carried);
  scenario->carried = NULL;
  TRY(clave_program_load(scenario->program, NULL, &scenario->carrier));
  TRY(clave_program_set_section(scenario->carrier, "TOKN", bytes, n));
  return clave_tokenizer_of_program(scenario->carrier, &scenario->carried);
}

static clave_status sample(scenario *scenario) {
  static const float logits[5] = {1, 2, 3, 2, 1};
  static const uint32_t seen[2] = {2, 3};
  static const clave_logit_bias bias = {2, -1};
  clave_sampler_options options = {.size = sizeof options,
                                   .bias = &bias,
                                   .n_bias = 1,
                                   .temperature = 0.5F,
                                   .top_p = 0.9F,
                                   .frequency_penalty = 0.1F};
  uint32_t id;
  TRY(clave_sampler_create(&options, &scenario->sampler));
  return clave_sampler_sample(scenario->sampler, logits, 5, seen, 2, &id);
}

/* Saves a chat of two turns and undoes the second. */
static clave_status chat(scenario *scenario, const clave_template_inputs *in) {
  char *text;
  size_t size;
  clave_ids ids;
  bool tools, documents;
  TRY(clave_llm_render(scenario->llm, in, &text, &size));
  clave_text_free(text);
  TRY(clave_llm_render_ids(scenario->llm, in, &ids));
  clave_ids_free(&ids);
  TRY(clave_llm_template_ignores(scenario->llm, in, &tools, &documents));
  TRY(clave_llm_reset(scenario->talk));
  TRY(clave_llm_prompt_messages(scenario->talk, in));
  TRY(answer(scenario->talk));
  TRY(clave_llm_prompt_messages(scenario->talk, in));
  TRY(clave_llm_save(scenario->talk, scenario->scratch));
  TRY(clave_llm_restore(scenario->talk, scenario->scratch));
  TRY(clave_llm_undo(scenario->talk, true));
  TRY(clave_llm_messages(scenario->talk, &text));
  clave_text_free(text);
  return NULL;
}

static clave_status run_talk(scenario *scenario) {
  static const clave_llm_message messages[] = {{"system", "Be brief.", 9}, {"user", "Why?", 4}};
  static const uint32_t more[2] = {65, 66};
  const char *text;
  size_t size;
  clave_llm_info info = {.size = sizeof info};
  TRY(clave_llm_get_info(scenario->llm, &info));
  TRY(clave_llm_prompt_text(scenario->talk, "Once", 4));
  TRY(answer(scenario->talk));
  TRY(clave_llm_fork(scenario->talk, &scenario->fork));
  TRY(clave_llm_save(scenario->talk, scenario->scratch));
  TRY(clave_llm_prompt(scenario->talk, more, 2));
  TRY(answer(scenario->talk));
  TRY(clave_llm_rewind(scenario->talk, 6));
  TRY(answer(scenario->talk));
  double scores[2];
  TRY(clave_llm_score(scenario->talk, more, 2, scores));
  TRY(answer(scenario->talk));
  clave_llm_logprob chosen, top[3];
  TRY(clave_llm_logprobs(scenario->talk, &chosen, top, 3));
  TRY(clave_llm_set_sampler(scenario->fork, NULL));
  TRY(clave_llm_restore(scenario->fork, scenario->scratch));
  TRY(clave_llm_prompt_chat(scenario->fork, "chatml", messages + 1, 1));
  TRY(answer(scenario->fork));
  clave_template_inputs in = {.size = sizeof in, .add_generation_prompt = true};
  in.messages = "[{\"role\": \"user\", \"content\": \"And?\"}]";
  TRY(clave_llm_prompt_messages(scenario->fork, &in));
  TRY(answer(scenario->fork));
  in.messages =
      "[{\"role\": \"user\", \"content\": [{\"type\": \"text\", \"text\": \"And\"}, \"?\"]}]";
  TRY(chat(scenario, &in));
  TRY(answer_both(scenario));
  char *tokens;
  TRY(clave_llm_chat_unknown_tokens(scenario->llm, &tokens));
  clave_text_free(tokens);
  TRY(clave_llm_flush(scenario->fork, &text, &size));
  clave_ids ids;
  TRY(clave_llm_chat_ids(scenario->llm, "mistral-v1", messages, 2, &ids));
  clave_ids_free(&ids);
  const uint32_t *all = clave_llm_ids(scenario->fork, &scenario->n_ids);
  memcpy(scenario->ids, all, scenario->n_ids * sizeof *all);
  return NULL;
}

static clave_status run_scenario(void *ctx) {
  scenario *scenario = ctx;
  TRY(carry_tokenizer(scenario));
  TRY(sample(scenario));
  TRY(open_talk(scenario));
  TRY(run_talk(scenario));
  return clave_llm_reset(scenario->talk);
}

static const scenario *good; /* a scenario without failures */

static const char *wrong_ids(void *ctx) {
  const scenario *scenario = ctx;
  bool same =
      scenario->n_ids == good->n_ids && !memcmp(scenario->ids, good->ids, sizeof scenario->ids);
  return same ? NULL : "the ids are others";
}

/* Resets the conversation and runs it as if there had been no failure. */
static clave_status resume(void *ctx) {
  scenario *scenario = ctx;
  if (!scenario->talk) return NULL;
  clave_llm_conversation_destroy(scenario->fork);
  scenario->fork = NULL;
  TRY(clave_llm_reset(scenario->talk));
  TRY(run_talk(scenario));
  if (wrong_ids(scenario)) abort();
  return NULL;
}

static void end_scenario(void *ctx) {
  scenario *alive = ctx;
  clave_sampler_destroy(alive->sampler);
  clave_tokenizer_destroy(alive->carried);
  clave_program_destroy(alive->carrier);
  clave_llm_conversation_destroy(alive->fork);
  clave_llm_conversation_destroy(alive->talk);
  clave_llm_destroy(alive->llm);
  clave_device_destroy(alive->device);
  unlink(alive->scratch);
  *alive = (scenario){.program = alive->program,
                      .tokenizer = alive->tokenizer,
                      .device_name = alive->device_name,
                      .scratch = alive->scratch};
}

int main(int argc, char **argv) {
  if (argc < 6) {
    fprintf(stderr,
            "usage: run_talk_faults alloc|calls PROGRAM TOKENIZER DEVICE SCRATCH [FIRST STEP]\n");
    return 2;
  }
  scenario alive = {
      .program = argv[2], .tokenizer = argv[3], .device_name = argv[4], .scratch = argv[5]};
  clave_status status = run_scenario(&alive);
  scenario first = alive;
  if (status) printf("FAIL without a failure: %s\n", clave_status_message(status));
  if (status) return 1;
  end_scenario(&alive);
  good = &first;
  const fault_test test = {&alive, run_scenario, wrong_ids, resume, end_scenario};
  return fault_loop(&test, argv[1], argc > 6 ? atol(argv[6]) : 0, argc > 7 ? atol(argv[7]) : 1);
}
