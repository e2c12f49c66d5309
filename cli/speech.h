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
  chat_inputs chat;
} speech;

/* Ctrl-C ends the answer instead of the program: is_interrupted (ctx is ignored) says so. */
void catch_interrupts(void);
bool is_interrupted(void *ctx);
void forget_interrupt(void);

/* A clave_progress_fn, ctx a speech: kernels are built, which is shown on no line that text is on.
 */
void show_building(void *ctx, const char *what, int done, int total);
/* Writes an answer to what was prompted: text, or the ids of a model without a tokenizer. */
int speak(speech *s) CHECK;
void print_statistics(const speech *s); /* on stderr */
int write_ids(const speech *s, const char *path) CHECK;
int write_statistics(const speech *s, const char *path) CHECK; /* JSON */

#endif
