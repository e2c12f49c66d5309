#ifndef LLM_CONVERSATION_H
#define LLM_CONVERSATION_H
/* What the files of a conversation share. */
#include "llm/language_model.h"
#include "llm/sampler.h"
#include "llm/stop_text.h"
#include "tokenizer/ids.h"

/* What a conversation remembers of its chat. */
typedef struct chat_memory {
  text history;  /* the messages so far as JSON, between commas, answers too; "" if not known */
  text rendered; /* what was rendered last */
  size_t n_ids;  /* of the conversation at that time: behind it an answer begins */
} chat_memory;

struct clave_llm_conversation {
  clave_llm *llm; /* held */
  mem_pool *pool; /* owned: what the options point to */
  clave_llm_conversation_options options;
  clave_session_options session_options; /* what options.session points to */
  clave_session *session;                /* owned */
  clave_sampler *sampler;                /* owned */
  clave_text_stream *stream;             /* owned, has seen all ids; NULL without a tokenizer */
  bool stream_lags;                      /* an error left the stream behind the ids */
  stop_text stop;
  text fresh; /* of the last token */
  id_list ids;
  size_t n_run;      /* ids that the model has run over: its state is that after them */
  float *logits;     /* owned: (n_vocab) of the last run */
  bool prompted;     /* since the last token */
  int64_t prompt_ns; /* when the first prompt came; 0: not yet */
  clave_llm_stats stats;
  chat_memory chat;
};

void conversation_start_clock(clave_llm_conversation *c); /* of the first token */
/* Appends ids as clave_llm_prompt does; at most `room` fit behind those that are there. */
clave_status conversation_append(clave_llm_conversation *c, const uint32_t *ids, size_t n,
                                 size_t room) STATUS_CHECK;
/* Runs what was not run yet; the logits of the last token are left in c->logits. */
clave_status conversation_run_pending(clave_llm_conversation *c) STATUS_CHECK;

/* Ids become those of `from` and the text stream has seen them; the model's state is the caller's
 * matter. A chat is forgotten. On failure nothing has changed. */
clave_status conversation_take_ids(clave_llm_conversation *c, const uint32_t *ids, size_t n,
                                   size_t n_run) STATUS_CHECK;

#endif
