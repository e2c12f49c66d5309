#ifndef CLI_SPEECH_H
#define CLI_SPEECH_H
/* Answers of a language model as they are made, and what is said of them afterwards. */
#include "clave_llm.h"
#include "cli/chat_inputs.h"
#include "cli/report.h"

typedef struct speech {
  clave_llm *llm;
  clave_llm_conversation *talk;
  int64_t max_new_tokens; /* of one answer */
  uint32_t *ids;          /* owned: all new ones */
  size_t n_ids, capacity;
  const char *stop_reason; /* of the last answer */
  bool begun;              /* the answer's first token is out */
  bool verbose;            /* prompts are shown as tokens */
  const char *logprobs;    /* where they go; NULL: they are not asked for */
  size_t n_top;            /* of how many ids beside the chosen one */
  clave_llm_logprob *top;  /* owned: (n_top) */
  page likely;             /* owned: what of them is written in the end */
  chat_inputs chat;
} speech;

void free_speech(speech *speech); /* what it owns */

/* A clave_progress_fn, ctx a speech: kernels are built, which is shown on no line that text is on.
 */
void show_building(void *ctx, const char *what, int done, int total);
/* Writes an answer to what was prompted: text, or the ids of a model without a tokenizer. */
int speak(speech *speech) CHECK;
/* The same on a line of its own, with a note where the answer was cut off. */
int speak_line(speech *speech) CHECK;
bool stopped_by(const speech *speech, const char *reason);
/* With --verbose-prompt: the last `count` ids, on stderr. */
int show_prompt(const speech *speech, uint64_t count) CHECK;
int write_logprobs(const speech *speech) CHECK;
void print_statistics(const speech *speech); /* on stderr */
int write_ids(const speech *speech, const char *path) CHECK;
int write_statistics(const speech *speech, const char *path) CHECK; /* JSON */

#endif
