#ifndef CLI_SPEECH_H
#define CLI_SPEECH_H
/* Prints answers of a language model as they are generated, and statistics afterwards. */
#include "clave_llm.h"
#include "cli/chat_inputs.h"
#include "cli/report.h"

typedef struct speech {
  clave_llm *llm;
  clave_llm_conversation *talk;
  int64_t max_new_tokens; /* limit of one answer */
  uint32_t *ids;          /* owned; all generated ids */
  size_t n_ids, capacity;
  const char *stop_reason; /* reason of the last answer */
  bool begun;              /* the answer's first token was printed */
  bool verbose;            /* print the tokens of prompts */
  const char *logprobs;    /* output file of log-probabilities; NULL: not requested */
  size_t n_top;            /* number of most likely ids to report beside the chosen one */
  clave_llm_logprob *top;  /* owned (n_top) */
  page likely;             /* owned; the text of log-probabilities, written at the end */
  chat_inputs chat;
} speech;

void free_speech(speech *speech); /* frees what speech owns */

/* A clave_progress_fn with ctx a speech: shows kernel builds unless the line already has text. */
void show_building(void *ctx, const char *what, int done, int total);
/* Generates an answer to the prompt and prints it as text, or as ids if the model has no tokenizer.
 */
int speak(speech *speech) CHECK;
/* Same as speak, on a separate line, with a note if the answer was cut off. */
int speak_line(speech *speech) CHECK;
bool stopped_by(const speech *speech, const char *reason);
/* With --verbose-prompt, prints the last `count` ids to stderr. */
int show_prompt(const speech *speech, uint64_t count) CHECK;
int write_logprobs(const speech *speech) CHECK;
void print_statistics(const speech *speech); /* prints to stderr */
int write_ids(const speech *speech, const char *path) CHECK;
int write_statistics(const speech *speech, const char *path) CHECK; /* JSON */

#endif
