#ifndef LLM_CONVERSATION_H
#define LLM_CONVERSATION_H
/* Declarations shared by the files that implement conversations. */
#include "llm/language_model.h"
#include "llm/page_pool.h"
#include "llm/sampler.h"
#include "llm/stop_text.h"
#include "tokenizer/ids.h"

/* Messages that were prompted together: the sizes of ids and history (bytes) before and after
 * them, and the rendering up to the start of the answer. */
typedef struct chat_turn {
  size_t ids_before, ids;
  size_t history_before, history;
  size_t rendered;        /* bytes */
  uint64_t rendered_hash; /* hash of the rendered bytes */
} chat_turn;

/* The chat part of a conversation. */
typedef struct chat_memory {
  text history;     /* the messages so far as JSON with commas, without the last turn's answer */
  chat_turn *turns; /* owned: turns whose ids are in the conversation */
  size_t n_turns, capacity;
} chat_memory;

/* The next `n` ids of a conversation that have not run yet. */
typedef struct run_chunk {
  clave_llm_conversation *conversation;
  size_t n;
  bool all_logits; /* compute logits of all n tokens instead of the last only; ignored if the
                      program cannot select rows */
} run_chunk;

/* Storage of a conversation's state. reserve_capacity, run, read, accept_file and write are called
 * between lock and unlock. */
typedef struct state_vtable {
  clave_status (*open)(clave_llm_conversation *self);
  void (*close)(clave_llm_conversation *self); /* accepts a conversation that was not opened */
  /* While the storage is locked, no other conversation changes the state or the outputs of the last
   * run. */
  void (*lock)(const clave_llm_conversation *self);
  void (*unlock)(const clave_llm_conversation *self);
  /* Reserves capacity for the first `to` tokens. Tokens from `from` on are about to be written. */
  clave_status (*reserve_capacity)(clave_llm_conversation *self, size_t from, size_t to);
  /* Runs chunks of one conversation, or of several that share a session. */
  clave_status (*run)(const llm_method *method, const run_chunk *chunks, size_t n_chunks);
  /* Marks the ids from `first` on, which have run at least in part, to run again. If the state
   * cannot go back that far, all ids will run again. */
  clave_status (*run_again)(clave_llm_conversation *self, size_t first);
  clave_status (*clear)(clave_llm_conversation *self); /* resets the state to its initial values */
  /* Rewinds the state to the first `count` tokens. Fails with the reason if it cannot. */
  clave_status (*rewind)(clave_llm_conversation *self, size_t count);
  /* Copies or shares the state of `from` with `to`, a new conversation. */
  clave_status (*share)(const clave_llm_conversation *from, clave_llm_conversation *to);
  /* Describes state tensor `index` as it is stored in a file. CLAVE_DYNAMIC marks a length that
   * may have any value within the bounds, the same for all tensors. */
  clave_status (*describe)(const clave_llm_conversation *self, uint32_t index,
                           clave_tensor_info *info);
  int64_t (*rows_in_file)(const clave_llm_conversation *self); /* dynamic length; 0: maximum */
  clave_status (*read)(const clave_llm_conversation *self, uint32_t index,
                       const clave_tensor *tensor, size_t size);
  /* Reserves capacity for a file's state, before write. rows: its dynamic length, 0 if none. */
  clave_status (*accept_file)(clave_llm_conversation *self, int64_t rows, size_t n_run);
  clave_status (*write)(clave_llm_conversation *self, uint32_t index, const clave_tensor *tensor,
                        size_t size);
} state_vtable;
extern const state_vtable own_session_state;  /* own_session.c: a session per conversation */
extern const state_vtable shared_pages_state; /* shared_pages.c: pages of a pool */

struct clave_llm_conversation {
  clave_llm *llm; /* holds a reference */
  mem_pool *pool; /* owned: memory that the options point to */
  clave_llm_conversation_options options;
  clave_session_options session_options; /* the target of options.session */
  const state_vtable *state;             /* storage of its state */
  clave_session *session;                /* owned, or borrowed from the page pool */
  page_pool *shared; /* holds a reference; NULL with a session per conversation */
  uint32_t *pages;   /* owned, (n_pages) */
  size_t n_pages, page_capacity;
  clave_sampler *sampler;    /* owned */
  clave_text_stream *stream; /* owned, was given all ids; NULL without a tokenizer */
  bool stream_is_stale;      /* an error left the stream without some ids */
  stop_text stop;
  text new_text; /* text of the last token */
  id_list ids;
  size_t n_run;        /* number of ids that have run, which the state contains */
  bool state_is_stale; /* a reset failed; it is repeated before the next run */
  int64_t capacity;    /* capacity of its caches in tokens; 0: fixed by the program */
  size_t n_written;    /* maximum of n_run since the start: ring caches may have overwritten older
                          tokens */
  size_t n_logits; /* number of ids after which the logits were computed; 0: they are not valid */
  float *logits;   /* owned: (n_vocab), from the last run */
  const char *answered_by; /* device kind of the last run; NULL before the first */
  bool prompted;           /* a prompt came after the last token */
  int64_t prompt_ns;       /* time of the first prompt; 0 before it */
  clave_llm_stats stats;
  chat_memory chat;
};

double conversation_ms_since(int64_t start); /* start: from clock_ns */
/* Starts to measure the time until the first token. */
void conversation_start_clock(clave_llm_conversation *conversation);
/* Appends ids for clave_llm_prompt; fails if `n` exceeds `capacity`. */
clave_status conversation_append(clave_llm_conversation *conversation, const uint32_t *ids,
                                 size_t n, size_t capacity) STATUS_CHECK;
/* own_session.c: resets the state in place; caches keep their size. All ids will run again, even if
 * this fails. Shared pages do not need it, because they can always go back. */
clave_status conversation_reset_session(clave_llm_conversation *conversation) STATUS_CHECK;
/* ---- run.c ---- */
/* Runs chunks of one conversation, or of several that share a pool, which is locked. Reserves
 * capacity for their state and invalidates earlier logits. If the run fails, the state goes back
 * to where it was; if it cannot, all ids will run again. */
clave_status conversation_run_chunks(const llm_method *method, const run_chunk *chunks,
                                     size_t n) STATUS_CHECK;
/* Reads, after conversation_run_chunks, the logits of token `back` before chunk i's last. */
clave_status conversation_chunk_logits(const llm_method *method, const run_chunk *chunks, size_t n,
                                       size_t i, size_t back, float *out) STATUS_CHECK;
/* Runs all pending ids and leaves the logits of each conversation's last token in its logits. If a
 * conversation went back and those logits are missing, runs its last token again. The n
 * conversations share one pool, or n is 1. */
clave_status conversation_run_pending(clave_llm_conversation *const *cs, size_t n) STATUS_CHECK;

/* Replaces the ids by the n given ones and makes a text stream that was given them. The caller
 * handles the model's state and the chat. On failure the conversation is unchanged. */
clave_status conversation_replace_ids(clave_llm_conversation *conversation, const uint32_t *ids,
                                      size_t n, size_t n_run) STATUS_CHECK;
/* Resets the state and removes all ids and the chat. */
clave_status conversation_restart(clave_llm_conversation *conversation) STATUS_CHECK;
/* If an error left the text stream without some ids, replaces it by one that was given all ids. */
clave_status conversation_renew_stream(clave_llm_conversation *conversation) STATUS_CHECK;
/* Stores the text of an id. It is empty for ids that the tokenizer lacks, because programs may
 * round up the size of the vocabulary. */
clave_status conversation_text_of(const clave_llm *llm, clave_text_stream *stream, uint32_t id,
                                  const char **bytes, size_t *size) STATUS_CHECK;

/* chat_memory.c */
void chat_forget(chat_memory *memory); /* keeps its memory for reuse */
void chat_free(chat_memory *memory);
clave_status chat_copy(const chat_memory *from, chat_memory *to) STATUS_CHECK;
/* Keeps the part of the chat that is within the first `count` ids, fewer than before. */
void chat_truncate(chat_memory *memory, size_t count);
/* Returns the number of ids before the answer to the last turn. */
size_t chat_answer_at(const chat_memory *memory);

#endif
