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

/* A token that an error kept back is asked for again: the conversation is as before the call. */
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

/* Those that have no token yet are asked again. */
static clave_status answer_both(life *l) {
  clave_llm_conversation *both[] = {l->talk, l->fork};
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

static clave_status open_talk(life *l) {
  static const char *const stops[] = {"never", "there"};
  static const clave_logit_bias bias = {5, -1};
  clave_llm_options o = {.size = sizeof o, .chat_template = "chatml", .tokenizer = l->tokenizer};
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
  TRY(clave_device_open(l->device_name, &device, &l->device));
  TRY(clave_llm_load(l->program, l->device, &o, &l->llm));
  return clave_llm_conversation_create(l->llm, &talk, &l->talk);
}

/* A tokenizer from bytes, kept in a program, and taken from it. */
static clave_status carry_tokenizer(life *l) {
  static char bytes[1 << 16];
  FILE *f = fopen(l->tokenizer, "rb");
  size_t n = f ? fread(bytes, 1, sizeof bytes, f) : 0;
  if (f) (void)fclose(f);
  TRY(clave_tokenizer_create(bytes, n, NULL, &l->carried));
  clave_tokenizer_destroy(l->carried);
  l->carried = NULL;
  TRY(clave_program_load(l->program, NULL, &l->carrier));
  TRY(clave_program_set_section(l->carrier, "TOKN", bytes, n));
  return clave_tokenizer_of_program(l->carrier, &l->carried);
}

static clave_status sample(life *l) {
  static const float logits[5] = {1, 2, 3, 2, 1};
  static const uint32_t seen[2] = {2, 3};
  static const clave_logit_bias bias = {2, -1};
  clave_sampler_options o = {.size = sizeof o,
                             .bias = &bias,
                             .n_bias = 1,
                             .temperature = 0.5F,
                             .top_p = 0.9F,
                             .frequency_penalty = 0.1F};
  uint32_t id;
  TRY(clave_sampler_create(&o, &l->sampler));
  return clave_sampler_sample(l->sampler, logits, 5, seen, 2, &id);
}

/* A chat of two turns, saved, of which the second is taken back. */
static clave_status chat(life *l, const clave_template_inputs *in) {
  char *text;
  size_t size;
  clave_ids ids;
  bool tools, documents;
  TRY(clave_llm_render(l->llm, in, &text, &size));
  clave_text_free(text);
  TRY(clave_llm_render_ids(l->llm, in, &ids));
  clave_ids_free(&ids);
  TRY(clave_llm_template_ignores(l->llm, in, &tools, &documents));
  TRY(clave_llm_reset(l->talk));
  TRY(clave_llm_prompt_messages(l->talk, in));
  TRY(answer(l->talk));
  TRY(clave_llm_prompt_messages(l->talk, in));
  TRY(clave_llm_save(l->talk, l->scratch));
  TRY(clave_llm_restore(l->talk, l->scratch));
  TRY(clave_llm_undo(l->talk, true));
  TRY(clave_llm_messages(l->talk, &text));
  clave_text_free(text);
  return NULL;
}

static clave_status run_talk(life *l) {
  static const clave_llm_message messages[] = {{"system", "Be brief.", 9}, {"user", "Why?", 4}};
  static const uint32_t more[2] = {65, 66};
  const char *text;
  size_t size;
  clave_llm_info info = {.size = sizeof info};
  TRY(clave_llm_get_info(l->llm, &info));
  TRY(clave_llm_prompt_text(l->talk, "Once", 4));
  TRY(answer(l->talk));
  TRY(clave_llm_fork(l->talk, &l->fork));
  TRY(clave_llm_save(l->talk, l->scratch));
  TRY(clave_llm_prompt(l->talk, more, 2));
  TRY(answer(l->talk));
  TRY(clave_llm_rewind(l->talk, 6));
  TRY(answer(l->talk));
  double scores[2];
  TRY(clave_llm_score(l->talk, more, 2, scores));
  TRY(answer(l->talk));
  clave_llm_logprob chosen, top[3];
  TRY(clave_llm_logprobs(l->talk, &chosen, top, 3));
  TRY(clave_llm_set_sampler(l->fork, NULL));
  TRY(clave_llm_restore(l->fork, l->scratch));
  TRY(clave_llm_prompt_chat(l->fork, "chatml", messages + 1, 1));
  TRY(answer(l->fork));
  clave_template_inputs in = {.size = sizeof in, .add_generation_prompt = true};
  in.messages = "[{\"role\": \"user\", \"content\": \"And?\"}]";
  TRY(clave_llm_prompt_messages(l->fork, &in));
  TRY(answer(l->fork));
  in.messages =
      "[{\"role\": \"user\", \"content\": [{\"type\": \"text\", \"text\": \"And\"}, \"?\"]}]";
  TRY(chat(l, &in));
  TRY(answer_both(l));
  char *tokens;
  TRY(clave_llm_chat_unknown_tokens(l->llm, &tokens));
  clave_text_free(tokens);
  TRY(clave_llm_flush(l->fork, &text, &size));
  clave_ids ids;
  TRY(clave_llm_chat_ids(l->llm, "mistral-v1", messages, 2, &ids));
  clave_ids_free(&ids);
  const uint32_t *all = clave_llm_ids(l->fork, &l->n_ids);
  memcpy(l->ids, all, l->n_ids * sizeof *all);
  return NULL;
}

static clave_status run_life(void *ctx) {
  life *l = ctx;
  TRY(carry_tokenizer(l));
  TRY(sample(l));
  TRY(open_talk(l));
  TRY(run_talk(l));
  return clave_llm_reset(l->talk);
}

static const life *good; /* of a life without failures */

static const char *wrong_ids(void *ctx) {
  const life *l = ctx;
  bool same = l->n_ids == good->n_ids && !memcmp(l->ids, good->ids, sizeof l->ids);
  return same ? NULL : "the ids are others";
}

/* The conversation begins again as if nothing had been. */
static clave_status resume(void *ctx) {
  life *l = ctx;
  if (!l->talk) return NULL;
  clave_llm_conversation_destroy(l->fork);
  l->fork = NULL;
  TRY(clave_llm_reset(l->talk));
  TRY(run_talk(l));
  if (wrong_ids(l)) abort();
  return NULL;
}

static void end_life(void *ctx) {
  life *l = ctx;
  clave_sampler_destroy(l->sampler);
  clave_tokenizer_destroy(l->carried);
  clave_program_destroy(l->carrier);
  clave_llm_conversation_destroy(l->fork);
  clave_llm_conversation_destroy(l->talk);
  clave_llm_destroy(l->llm);
  clave_device_destroy(l->device);
  unlink(l->scratch);
  *l = (life){.program = l->program,
              .tokenizer = l->tokenizer,
              .device_name = l->device_name,
              .scratch = l->scratch};
}

int main(int argc, char **argv) {
  if (argc < 6) {
    fprintf(stderr,
            "usage: run_talk_faults alloc|calls PROGRAM TOKENIZER DEVICE SCRATCH [FIRST STEP]\n");
    return 2;
  }
  life l = {.program = argv[2], .tokenizer = argv[3], .device_name = argv[4], .scratch = argv[5]};
  clave_status status = run_life(&l);
  life first = l;
  if (status) printf("FAIL without a failure: %s\n", clave_status_message(status));
  if (status) return 1;
  end_life(&l);
  good = &first;
  const fault_test test = {&l, run_life, wrong_ids, resume, end_life};
  return fault_loop(&test, argv[1], argc > 6 ? atol(argv[6]) : 0, argc > 7 ? atol(argv[7]) : 1);
}
