/* Fails the Nth allocation of a whole life of a conversation (load, prompt, answer, fork, save,
 * restore, chat), for N = 0, 1, 2 ... until nothing is left to fail. Each time there is an error of
 * one line, or the ids are those of the life without failures. Leaks are for the sanitizer.
 *
 *   run_talk_faults PROGRAM TOKENIZER SCRATCH_FILE [FIRST STEP] */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "clave_llm.h"
#include "test/fault/alloc.h"

enum { TOKENS = 4, MAX_IDS = 200 };

typedef struct life {
  const char *program, *tokenizer, *scratch;
  clave_device *device;
  clave_llm *llm;
  clave_llm_conversation *talk, *fork;
  uint32_t ids[MAX_IDS];
  size_t n_ids;
} life;

#define TRY(call)              \
  do {                         \
    clave_status st_ = (call); \
    if (st_) return st_;       \
  } while (0)

static clave_status answer(clave_llm_conversation *talk) {
  for (int i = 0; i < TOKENS; i++) {
    clave_llm_token token;
    TRY(clave_llm_next(talk, &token));
  }
  return NULL;
}

static clave_status open_talk(life *l) {
  static const char *const stops[] = {"never", "there"};
  static const clave_logit_bias bias = {5, -1};
  clave_llm_options o = {.size = sizeof o, .tokenizer = l->tokenizer};
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
  TRY(clave_device_open("cpu", &device, &l->device));
  TRY(clave_llm_load(l->program, l->device, &o, &l->llm));
  return clave_llm_conversation_create(l->llm, &talk, &l->talk);
}

static clave_status run_life(life *l) {
  static const clave_llm_message messages[] = {{"system", "Be brief.", 9}, {"user", "Why?", 4}};
  const char *text;
  size_t size;
  TRY(open_talk(l));
  TRY(clave_llm_prompt_text(l->talk, "Once", 4));
  TRY(answer(l->talk));
  TRY(clave_llm_fork(l->talk, &l->fork));
  TRY(clave_llm_save(l->talk, l->scratch));
  TRY(answer(l->talk));
  TRY(clave_llm_restore(l->fork, l->scratch));
  TRY(clave_llm_prompt_chat(l->fork, "chatml", messages + 1, 1));
  TRY(answer(l->fork));
  TRY(clave_llm_flush(l->fork, &text, &size));
  clave_ids ids;
  TRY(clave_llm_chat_ids(l->llm, "mistral-v1", messages, 2, &ids));
  clave_ids_free(&ids);
  const uint32_t *all = clave_llm_ids(l->fork, &l->n_ids);
  memcpy(l->ids, all, l->n_ids * sizeof *all);
  return NULL;
}

static void end_life(life *l) {
  clave_llm_conversation_destroy(l->fork);
  clave_llm_conversation_destroy(l->talk);
  clave_llm_destroy(l->llm);
  clave_device_destroy(l->device);
  unlink(l->scratch);
}

static const char *fault(life l, const life *good, long n, bool *fired) {
  static char text[400];
  const char *wrong = NULL;
  alloc_arm(n);
  clave_status status = run_life(&l);
  *fired = alloc_disarm();
  snprintf(text, sizeof text, "%s", clave_status_message(status));
  if (status && !*fired)
    wrong = text;
  else if (status && (!*text || strchr(text, '\n')))
    wrong = "the message is not one line";
  else if (!status && (l.n_ids != good->n_ids || memcmp(l.ids, good->ids, sizeof l.ids)))
    wrong = "no error, yet the ids are others";
  clave_status_free(status);
  end_life(&l);
  return wrong;
}

int main(int argc, char **argv) {
  if (argc < 4) {
    fprintf(stderr, "usage: run_talk_faults PROGRAM TOKENIZER SCRATCH_FILE [FIRST STEP]\n");
    return 2;
  }
  life l = {.program = argv[1], .tokenizer = argv[2], .scratch = argv[3]}, good = l;
  long n = argc > 4 ? atol(argv[4]) : 0, step = argc > 5 ? atol(argv[5]) : 1;
  clave_status status = run_life(&good);
  int passed = 0, failed = status != NULL;
  if (status) printf("FAIL without a failure: %s\n", clave_status_message(status));
  clave_status_free(status);
  end_life(&good);
  for (bool fired = !failed; fired; n += step) {
    const char *wrong = fault(l, &good, n, &fired);
    if (wrong) printf("FAIL %ld: %s\n", n, wrong);
    *(wrong ? &failed : &passed) += 1;
    fflush(stdout);
  }
  printf("%d passed, %d failed\n", passed, failed);
  return failed != 0;
}
