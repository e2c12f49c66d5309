/* Faults in a whole life of a conversation: load, prompt, answer, fork, save, restore, chat, reset;
 * its tokenizer and its sampler by themselves. The ids are those of the life without failures.
 *
 *   run_talk_faults alloc|calls PROGRAM TOKENIZER DEVICE SCRATCH_FILE [FIRST STEP] */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "clave_llm.h"
#include "test/fault/loop.h"

enum { TOKENS = 4, MAX_IDS = 200 };

typedef struct life {
  const char *program, *tokenizer, *device_name, *scratch;
  clave_device *device;
  clave_program *carrier; /* a program that carries the tokenizer */
  clave_tokenizer *carried;
  clave_sampler *sampler;
  clave_llm *llm;
  clave_llm_conversation *talk, *fork;
  uint32_t ids[MAX_IDS];
  size_t n_ids;
} life;

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
static clave_status answer_both(life *life) {
  clave_llm_conversation *both[] = {life->talk, life->fork};
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

static clave_status open_talk(life *life) {
  static const char *const stops[] = {"never", "there"};
  static const clave_logit_bias bias = {5, -1};
  clave_llm_options options = {
      .size = sizeof options, .chat_template = "chatml", .tokenizer = life->tokenizer};
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
  TRY(clave_device_open(life->device_name, &device, &life->device));
  TRY(clave_llm_load(life->program, life->device, &options, &life->llm));
  return clave_llm_conversation_create(life->llm, &talk, &life->talk);
}

/* Makes a tokenizer from bytes, stores it in a program and loads it from there. */
static clave_status carry_tokenizer(life *life) {
  static char bytes[1 << 16];
  FILE *file = fopen(life->tokenizer, "rb");
  size_t n = file ? fread(bytes, 1, sizeof bytes, file) : 0;
  if (file) (void)fclose(file);
  TRY(clave_tokenizer_create(bytes, n, NULL, &life->carried));
  clave_tokenizer_destroy(life->carried);
  life->carried = NULL;
  TRY(clave_program_load(life->program, NULL, &life->carrier));
  TRY(clave_program_set_section(life->carrier, "TOKN", bytes, n));
  return clave_tokenizer_of_program(life->carrier, &life->carried);
}

static clave_status sample(life *life) {
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
  TRY(clave_sampler_create(&options, &life->sampler));
  return clave_sampler_sample(life->sampler, logits, 5, seen, 2, &id);
}

/* Saves a chat of two turns and undoes the second. */
static clave_status chat(life *life, const clave_template_inputs *in) {
  char *text;
  size_t size;
  clave_ids ids;
  bool tools, documents;
  TRY(clave_llm_render(life->llm, in, &text, &size));
  clave_text_free(text);
  TRY(clave_llm_render_ids(life->llm, in, &ids));
  clave_ids_free(&ids);
  TRY(clave_llm_template_ignores(life->llm, in, &tools, &documents));
  TRY(clave_llm_reset(life->talk));
  TRY(clave_llm_prompt_messages(life->talk, in));
  TRY(answer(life->talk));
  TRY(clave_llm_prompt_messages(life->talk, in));
  TRY(clave_llm_save(life->talk, life->scratch));
  TRY(clave_llm_restore(life->talk, life->scratch));
  TRY(clave_llm_undo(life->talk, true));
  TRY(clave_llm_messages(life->talk, &text));
  clave_text_free(text);
  return NULL;
}

static clave_status run_talk(life *life) {
  static const clave_llm_message messages[] = {{"system", "Be brief.", 9}, {"user", "Why?", 4}};
  static const uint32_t more[2] = {65, 66};
  const char *text;
  size_t size;
  clave_llm_info info = {.size = sizeof info};
  TRY(clave_llm_get_info(life->llm, &info));
  TRY(clave_llm_prompt_text(life->talk, "Once", 4));
  TRY(answer(life->talk));
  TRY(clave_llm_fork(life->talk, &life->fork));
  TRY(clave_llm_save(life->talk, life->scratch));
  TRY(clave_llm_prompt(life->talk, more, 2));
  TRY(answer(life->talk));
  TRY(clave_llm_rewind(life->talk, 6));
  TRY(answer(life->talk));
  double scores[2];
  TRY(clave_llm_score(life->talk, more, 2, scores));
  TRY(answer(life->talk));
  clave_llm_logprob chosen, top[3];
  TRY(clave_llm_logprobs(life->talk, &chosen, top, 3));
  TRY(clave_llm_set_sampler(life->fork, NULL));
  TRY(clave_llm_restore(life->fork, life->scratch));
  TRY(clave_llm_prompt_chat(life->fork, "chatml", messages + 1, 1));
  TRY(answer(life->fork));
  clave_template_inputs in = {.size = sizeof in, .add_generation_prompt = true};
  in.messages = "[{\"role\": \"user\", \"content\": \"And?\"}]";
  TRY(clave_llm_prompt_messages(life->fork, &in));
  TRY(answer(life->fork));
  in.messages =
      "[{\"role\": \"user\", \"content\": [{\"type\": \"text\", \"text\": \"And\"}, \"?\"]}]";
  TRY(chat(life, &in));
  TRY(answer_both(life));
  char *tokens;
  TRY(clave_llm_chat_unknown_tokens(life->llm, &tokens));
  clave_text_free(tokens);
  TRY(clave_llm_flush(life->fork, &text, &size));
  clave_ids ids;
  TRY(clave_llm_chat_ids(life->llm, "mistral-v1", messages, 2, &ids));
  clave_ids_free(&ids);
  const uint32_t *all = clave_llm_ids(life->fork, &life->n_ids);
  memcpy(life->ids, all, life->n_ids * sizeof *all);
  return NULL;
}

static clave_status run_life(void *ctx) {
  life *life = ctx;
  TRY(carry_tokenizer(life));
  TRY(sample(life));
  TRY(open_talk(life));
  TRY(run_talk(life));
  return clave_llm_reset(life->talk);
}

static const life *good; /* a life without failures */

static const char *wrong_ids(void *ctx) {
  const life *life = ctx;
  bool same = life->n_ids == good->n_ids && !memcmp(life->ids, good->ids, sizeof life->ids);
  return same ? NULL : "the ids are others";
}

/* Resets the conversation and runs it as if there had been no failure. */
static clave_status resume(void *ctx) {
  life *life = ctx;
  if (!life->talk) return NULL;
  clave_llm_conversation_destroy(life->fork);
  life->fork = NULL;
  TRY(clave_llm_reset(life->talk));
  TRY(run_talk(life));
  if (wrong_ids(life)) abort();
  return NULL;
}

static void end_life(void *ctx) {
  life *alive = ctx;
  clave_sampler_destroy(alive->sampler);
  clave_tokenizer_destroy(alive->carried);
  clave_program_destroy(alive->carrier);
  clave_llm_conversation_destroy(alive->fork);
  clave_llm_conversation_destroy(alive->talk);
  clave_llm_destroy(alive->llm);
  clave_device_destroy(alive->device);
  unlink(alive->scratch);
  *alive = (life){.program = alive->program,
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
  life alive = {
      .program = argv[2], .tokenizer = argv[3], .device_name = argv[4], .scratch = argv[5]};
  clave_status status = run_life(&alive);
  life first = alive;
  if (status) printf("FAIL without a failure: %s\n", clave_status_message(status));
  if (status) return 1;
  end_life(&alive);
  good = &first;
  const fault_test test = {&alive, run_life, wrong_ids, resume, end_life};
  return fault_loop(&test, argv[1], argc > 6 ? atol(argv[6]) : 0, argc > 7 ? atol(argv[7]) : 1);
}
