#ifndef LLM_CONVERSATION_H
#define LLM_CONVERSATION_H
/* What the files of a conversation share. */
#include "llm/language_model.h"
#include "llm/page_pool.h"
#include "llm/sampler.h"
#include "llm/stop_text.h"
#include "tokenizer/ids.h"

/* Messages that were prompted together: ids and bytes of the chat's history ahead of them and with
 * them, and what was rendered up to where the answer begins. */
typedef struct chat_turn {
  size_t ids_before, ids;
  size_t history_before, history;
  size_t rendered;        /* bytes */
  uint64_t rendered_hash; /* of them */
} chat_turn;

/* What a conversation remembers of its chat. */
typedef struct chat_memory {
  text history; /* the messages so far as JSON, between commas, but for the last turn's answer */
  chat_turn *turns; /* owned: those whose ids are in the conversation */
  size_t n_turns, capacity;
} chat_memory;

/* The next `n` ids of a conversation that were not run. */
typedef struct run_part {
  clave_llm_conversation *conversation;
  size_t n;
  bool all_logits; /* of all n tokens, if the program lets rows be chosen; else of the last */
} run_part;

/* Where a conversation keeps its state. make_room, run, read, accept_file and write are called
 * between lock and unlock. */
typedef struct state_vtable {
  clave_status (*open)(clave_llm_conversation *self);
  void (*close)(clave_llm_conversation *self); /* takes one that was not opened */
  /* While it is locked, the state and the outputs of its last run are the caller's alone. */
  void (*lock)(const clave_llm_conversation *self);
  void (*unlock)(const clave_llm_conversation *self);
  /* Makes room for tokens up to `to`, of which those from `from` on are about to be written. */
  clave_status (*make_room)(clave_llm_conversation *self, size_t from, size_t to);
  /* Runs parts of conversations that share a session, or of one. */
  clave_status (*run)(const llm_method *method, const run_part *parts, size_t n_parts);
  /* Lets the ids from `first` on, which have run or begun to, run again; all of them if the state
   * cannot go back so far. */
  clave_status (*run_again)(clave_llm_conversation *self, size_t first);
  clave_status (*clear)(clave_llm_conversation *self); /* the state is as it was at first */
  /* Goes back to the first `count` tokens, or returns why the state cannot. */
  clave_status (*cut)(clave_llm_conversation *self, size_t count);
  /* Gives `to`, which is new, the state of `from`. */
  clave_status (*share)(const clave_llm_conversation *from, clave_llm_conversation *to);
  /* Describes state tensor `index` as a file has it: CLAVE_DYNAMIC for a length that may be any
   * within the bounds, the same for all. */
  clave_status (*describe)(const clave_llm_conversation *self, uint32_t index,
                           clave_tensor_info *info);
  int64_t (*rows_in_file)(const clave_llm_conversation *self); /* that length; 0: the largest */
  clave_status (*read)(const clave_llm_conversation *self, uint32_t index,
                       const clave_tensor *tensor, size_t size);
  /* Makes room for a file's state; rows: its open length, 0 if there is none. Then write it. */
  clave_status (*accept_file)(clave_llm_conversation *self, int64_t rows, size_t n_run);
  clave_status (*write)(clave_llm_conversation *self, uint32_t index, const clave_tensor *tensor,
                        size_t size);
} state_vtable;
extern const state_vtable own_session_state;  /* own_session.c: a session of its own */
extern const state_vtable shared_pages_state; /* shared_pages.c: pages of the model's pool */

struct clave_llm_conversation {
  clave_llm *llm; /* held */
  mem_pool *pool; /* owned: what the options point to */
  clave_llm_conversation_options options;
  clave_session_options session_options; /* what options.session points to */
  const state_vtable *state;             /* where its state is */
  clave_session *session;                /* owned, or borrowed from the pool */
  page_pool *shared;                     /* held; NULL: the session is its own */
  uint32_t *pages;                       /* owned (n_pages) */
  size_t n_pages, page_capacity;
  clave_sampler *sampler;    /* owned */
  clave_text_stream *stream; /* owned, has seen all ids; NULL without a tokenizer */
  bool stream_lags;          /* an error left the stream behind the ids */
  stop_text stop;
  text fresh; /* of the last token */
  id_list ids;
  size_t n_run;            /* ids that the model has run over: its state is that after them */
  bool state_lags;         /* it was to be as at first, and is not: the next run sees to it */
  int64_t room;            /* tokens that its caches hold; 0: what the program says */
  size_t n_written;        /* the most that it had run over since it began: what rings have lost */
  size_t n_logits;         /* ids that the logits are of; 0: of none of these */
  float *logits;           /* owned: (n_vocab) of the last run */
  const char *answered_by; /* the kind of the device of the last run; NULL: none was */
  bool prompted;           /* since the last token */
  int64_t prompt_ns;       /* when the first prompt came; 0: not yet */
  clave_llm_stats stats;
  chat_memory chat;
};

double conversation_ms_since(int64_t start);                         /* start: of clock_ns */
void conversation_start_clock(clave_llm_conversation *conversation); /* of the first token */
/* Appends ids as clave_llm_prompt does; at most `room` fit behind those that are there. */
clave_status conversation_append(clave_llm_conversation *conversation, const uint32_t *ids,
                                 size_t n, size_t room) STATUS_CHECK;
/* own_session.c: clears the state in caches of the size that they have; only a session of its own
 * may be unable to go back. All ids will run again, also if it fails. */
clave_status conversation_reset_session(clave_llm_conversation *conversation) STATUS_CHECK;
/* ---- run.c ---- */
/* Runs parts of one conversation, or of some that share a pool, which is locked: their state gets
 * room, logits of before are gone. A run that fails leaves the state as far as it came: where that
 * cannot go back, all is run again. */
clave_status conversation_run_parts(const llm_method *method, const run_part *parts,
                                    size_t n) STATUS_CHECK;
/* Then: the logits of part i's token `back` before its last. */
clave_status conversation_part_logits(const llm_method *method, const run_part *parts, size_t n,
                                      size_t i, size_t back, float *out) STATUS_CHECK;
/* Runs what was not run yet; the logits of the last token are left in c->logits. They may be there
 * already, and may be missing though it was run, in a conversation that went back. The n have one
 * pool, or n is 1. */
clave_status conversation_run_pending(clave_llm_conversation *const *cs, size_t n) STATUS_CHECK;

/* Ids become those of `from` and the text stream has seen them; the model's state and the chat are
 * the caller's matter. On failure nothing has changed. */
clave_status conversation_take_ids(clave_llm_conversation *conversation, const uint32_t *ids,
                                   size_t n, size_t n_run) STATUS_CHECK;
/* The state as it was at first, no ids, no chat. */
clave_status conversation_begin_again(clave_llm_conversation *conversation) STATUS_CHECK;
/* The stream has seen all ids, also where an error had stopped it among them. */
clave_status conversation_renew_stream(clave_llm_conversation *conversation) STATUS_CHECK;
/* The text of an id; none if the tokenizer lacks it: programs round their vocabulary up. */
clave_status conversation_text_of(const clave_llm *llm, clave_text_stream *stream, uint32_t id,
                                  const char **bytes, size_t *size) STATUS_CHECK;

/* chat_memory.c */
void chat_forget(chat_memory *memory); /* keeps its memory */
void chat_free(chat_memory *memory);
clave_status chat_copy(const chat_memory *from, chat_memory *to) STATUS_CHECK;
/* What of the chat stands within the first `count` ids, fewer than before. */
void chat_cut(chat_memory *memory, size_t count);
/* Where the answer to the last turn begins. */
size_t chat_answer_at(const chat_memory *memory);

#endif
