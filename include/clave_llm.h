#ifndef CLAVE_LLM_H
#define CLAVE_LLM_H
/* clave_llm: text in, text out. Language models that run through clave.h, with the tokenizers of
 * clave_tokenizer.h.
 *
 *   clave_llm *llm; clave_llm_conversation *talk; clave_llm_token token;
 *   clave_llm_load("model.clv", device, NULL, &llm);
 *   clave_llm_conversation_create(llm, NULL, &talk);
 *   clave_llm_prompt_text(talk, "Once upon a time", 16);
 *   do clave_llm_next(talk, &token); while (print(token.text, token.text_size), !token.stop);
 *
 * The rules of clave.h hold: a status is NULL or an error to free, `out` comes last, create and
 * load are paired with destroy. Text is UTF-8 with a size, need not end in NUL and may hold one.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "clave.h"
#include "clave_template.h"
#include "clave_tokenizer.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---------------------------------------------------------------- sampling */

typedef struct clave_logit_bias {
  uint32_t id;
  float bias; /* added to the logit; -INFINITY: never */
} clave_logit_bias;

/* In the order in which they are applied; a zeroed struct is greedy. */
typedef struct clave_sampler_options {
  size_t size; /* sizeof(clave_sampler_options) */
  const clave_logit_bias *bias;
  size_t n_bias;
  float repetition_penalty; /* of ids among the last `penalty_window`: logit / p if positive, else
                               logit * p (Keskar et al. 2019); 0 or 1: none */
  float presence_penalty;   /* subtracted once per id seen there */
  float frequency_penalty;  /* subtracted for each time it was seen there */
  uint32_t penalty_window;  /* ids, prompt included; 0: all of the conversation */
  float temperature;        /* logits are divided by it; 0: the largest logit (ties: the smallest
                               id), and what follows does not matter */
  uint32_t top_k;           /* only the k largest; 0: all */
  float top_p;              /* then the fewest with at least this probability together (nucleus);
                               0 or 1: all */
  float min_p;              /* then those at least this times as likely as the likeliest; 0: all */
  uint64_t seed;            /* equal seeds, logits and options give equal ids on every machine */
} clave_sampler_options;

typedef struct clave_sampler clave_sampler;
/* Copies the bias. CLAVE_INVALID names an option out of range. */
CLAVE_API clave_status clave_sampler_create(const clave_sampler_options *options,
                                            clave_sampler **out) CLAVE_CHECK;
/* One id from `count` logits; `seen`: the conversation's ids so far. A NaN is CLAVE_INVALID. */
CLAVE_API clave_status clave_sampler_sample(clave_sampler *sampler, const float *logits,
                                            size_t count, const uint32_t *seen, size_t n_seen,
                                            uint32_t *id) CLAVE_CHECK;
CLAVE_API void clave_sampler_destroy(clave_sampler *sampler);

/* ---------------------------------------------------------------- language models */

/* The tokenizer that a .clv carries. CLAVE_INVALID if it carries none. */
CLAVE_API clave_status clave_tokenizer_of_program(const clave_program *program,
                                                  clave_tokenizer **out) CLAVE_CHECK;

/* A program with its tokenizer on a device: docs/llm.md says what its methods must look like. Its
 * conversations share the weights. */
typedef struct clave_llm clave_llm;

typedef struct clave_llm_options {
  size_t size;           /* sizeof(clave_llm_options) */
  const char *tokenizer; /* a file or folder; NULL: the one in the .clv, none if it has none */
  const clave_tokenizer_options *tokenizer_options; /* of a file that is given; NULL: none */
  const char *consts;                               /* as in clave_program_options */
  const char *chat_template; /* a name, a Jinja text, or a file as clave_template_load takes; NULL:
                                what the program says */
  uint32_t max_context;      /* tokens, at most as many as the program was made for; 0: those */
  const void *clv; /* a .clv's bytes (clv_size) instead of the file, which messages name: as in
                      clave_program_load_bytes; NULL: the file */
  size_t clv_size;
} clave_llm_options;

/* How chats sample if the program does not say. */
#define CLAVE_LLM_CHAT_TEMPERATURE 0.8F
#define CLAVE_LLM_CHAT_MIN_P 0.05F

typedef struct clave_llm_info {
  size_t size;                      /* sizeof(clave_llm_info) */
  uint32_t max_context;             /* tokens; prompts and what is generated share it */
  uint32_t n_vocab;                 /* logits of a token */
  const clave_tokenizer *tokenizer; /* NULL: ids only */
  int32_t bos;                      /* what a prompt begins with; CLAVE_NO_TOKEN: nothing */
  const uint32_t *stop_ids;         /* ids that end a text */
  size_t n_stop_ids;
  const char *chat_template; /* the name of a built-in, or a Jinja text; NULL: not a chat model */
  const clave_sampler_options *sampling; /* as the model's authors sample, for whom asks for it;
                                            NULL: the program does not say */
  uint32_t page_rows; /* tokens of a page of the memory that conversations share, which
                         docs/kv_cache.md describes; 0: each has its own */
  const clave_sampler_options *chat_sampling; /* how chats sample by default: as the model's authors
                                                 do; if the program does not say, with
                                                 CLAVE_LLM_CHAT_TEMPERATURE and _MIN_P */
} clave_llm_info;

/* Keeps the device alive. */
CLAVE_API clave_status clave_llm_load(const char *path, clave_device *device,
                                      const clave_llm_options *options,
                                      clave_llm **out) CLAVE_CHECK;
CLAVE_API clave_status clave_llm_get_info(const clave_llm *llm, clave_llm_info *info) CLAVE_CHECK;
CLAVE_API void clave_llm_destroy(clave_llm *llm); /* its conversations keep it alive */

/* Messages as the model's chat template writes them, up to where the assistant answers. Texts of
 * messages, tools and documents never become special tokens: those count where the template itself
 * writes them. */
typedef struct clave_llm_message {
  const char *role; /* "system", "user" or "assistant" */
  const char *content;
  size_t content_size;
} clave_llm_message;
/* template_name: NULL for the model's own, or a built-in's. CLAVE_INVALID: the template raises an
 * exception, which is the message; CLAVE_UNSUPPORTED names what of a template we cannot read. */
CLAVE_API clave_status clave_llm_chat_ids(const clave_llm *llm, const char *template_name,
                                          const clave_llm_message *messages, size_t count,
                                          clave_ids *out) CLAVE_CHECK;
/* What the model's chat template writes that looks like a special token ("<|im_start|>") and is
 * none of the tokenizer's, with commas between; "" for none. Freed with clave_text_free. */
CLAVE_API clave_status clave_llm_chat_unknown_tokens(const clave_llm *llm,
                                                     char **tokens) CLAVE_CHECK;
/* As clave_template_builtin. */
CLAVE_API const char *clave_llm_chat_template_name(size_t index);
/* Messages as JSON, tools, documents and arguments as the model's chat template writes them, behind
 * the model's default system message if they begin with none; bos and eos: NULL for the model's.
 * The text ends in NUL and is freed with clave_text_free. */
CLAVE_API clave_status clave_llm_render(const clave_llm *llm, const clave_template_inputs *inputs,
                                        char **text, size_t *size) CLAVE_CHECK;
/* The same as ids, in which texts of messages are no special tokens; clave_ids_free. */
CLAVE_API clave_status clave_llm_render_ids(const clave_llm *llm,
                                            const clave_template_inputs *inputs,
                                            clave_ids *out) CLAVE_CHECK;
/* As clave_template_ignores, for the model's chat template. */
CLAVE_API clave_status clave_llm_template_ignores(const clave_llm *llm,
                                                  const clave_template_inputs *inputs, bool *tools,
                                                  bool *documents) CLAVE_CHECK;

/* One text in the making: the ids so far and the state of the model after them. */
typedef struct clave_llm_conversation clave_llm_conversation;

/* Called before each choice with a copy of the logits (count), which it may change (-INFINITY: not
 * that id), and the ids so far; ahead of the sampler's own bias and penalties. False: the call of
 * clave_llm_next is an error, CLAVE_INVALID. */
typedef bool (*clave_llm_logits_fn)(void *ctx, float *logits, size_t count, const uint32_t *ids,
                                    size_t n_ids);

typedef struct clave_llm_conversation_options {
  size_t size;                          /* sizeof(clave_llm_conversation_options) */
  const clave_sampler_options *sampler; /* NULL: greedy */
  const char *const *stop;              /* texts that end the answer; they are not part of it */
  size_t n_stop;
  bool ignore_stop_ids;   /* go on until a text, a limit or the context's end stops it */
  uint32_t prefill_chunk; /* tokens of a prompt run at once; 0: as many as the program takes, at
                             most 512 */
  const clave_session_options *session; /* NULL: the defaults */
  clave_llm_logits_fn change_logits;    /* NULL: none; forks have it, too */
  void *change_logits_ctx;
} clave_llm_conversation_options;

CLAVE_API clave_status clave_llm_conversation_create(clave_llm *llm,
                                                     const clave_llm_conversation_options *options,
                                                     clave_llm_conversation **out) CLAVE_CHECK;
CLAVE_API void clave_llm_conversation_destroy(clave_llm_conversation *conversation);

/* Chooses what follows otherwise; random numbers go on where they were. NULL: greedy. On failure
 * nothing has changed. */
CLAVE_API clave_status clave_llm_set_sampler(clave_llm_conversation *conversation,
                                             const clave_sampler_options *options) CLAVE_CHECK;

/* Appends to the text; the model runs over it at the next clave_llm_next, in chunks. CLAVE_INVALID,
 * with nothing appended: an id out of range, or so many that no token could follow in the context.
 */
CLAVE_API clave_status clave_llm_prompt(clave_llm_conversation *conversation, const uint32_t *ids,
                                        size_t count) CLAVE_CHECK;
/* Encoded with the model's BOS if it is the first of the conversation. */
CLAVE_API clave_status clave_llm_prompt_text(clave_llm_conversation *conversation, const char *text,
                                             size_t size) CLAVE_CHECK;
/* Messages behind those of the conversation's chat so far, of which what was generated since is the
 * answer. The whole chat is rendered: where it begins with what was rendered before and the answer,
 * the conversation goes on; where the template writes the past anew, it begins again and runs all
 * of it. */
CLAVE_API clave_status clave_llm_prompt_chat(clave_llm_conversation *conversation,
                                             const char *template_name,
                                             const clave_llm_message *messages,
                                             size_t count) CLAVE_CHECK;

/* The same with messages as JSON, tools, documents and arguments; bos and eos: NULL for the
 * model's. */
CLAVE_API clave_status clave_llm_prompt_messages(clave_llm_conversation *conversation,
                                                 const clave_template_inputs *inputs) CLAVE_CHECK;

/* Runs ids behind those of the conversation and appends them. log_probabilities: (count), the
 * natural logarithm of each one's probability after all before it; NAN of the first of a
 * conversation. A model that gives the logits of its last token alone runs them one by one. After
 * CLAVE_INVALID, an id out of range or more than fit into the context, nothing is appended; after
 * another error the conversation is to be reset. */
CLAVE_API clave_status clave_llm_score(clave_llm_conversation *conversation, const uint32_t *ids,
                                       size_t count, double *log_probabilities) CLAVE_CHECK;

typedef enum clave_llm_stop {
  CLAVE_LLM_GOES_ON = 0,
  CLAVE_LLM_STOP_ID,     /* one of the model's stop ids, which is not part of the text */
  CLAVE_LLM_STOP_TEXT,   /* one of options.stop */
  CLAVE_LLM_CONTEXT_FULL /* this token was the last that fits */
} clave_llm_stop;
CLAVE_API const char *clave_llm_stop_name(clave_llm_stop stop); /* "stop_id" */

typedef struct clave_llm_token {
  uint32_t id;
  const char *text; /* whole characters, perhaps none; what may begin a stop text is held back.
                       Valid until the next call. NULL without a tokenizer */
  size_t text_size;
  clave_llm_stop stop;
} clave_llm_token;
/* The next token. CLAVE_INVALID: nothing was prompted, or the context was full before. After a stop
 * the conversation may go on with another prompt. After an error (the session's `cancel` makes one)
 * it is as before the call, but for what of the prompt was run. */
CLAVE_API clave_status clave_llm_next(clave_llm_conversation *conversation,
                                      clave_llm_token *out) CLAVE_CHECK;
/* The next token of each of n conversations with one model, as clave_llm_next gives them. Those
 * that share their memory run together: the model reads its weights once for all. *done: how many
 * have theirs; after an error the others, from conversations[*done] on, are as clave_llm_next
 * leaves them. CLAVE_INVALID: one is there twice, or of another model. */
CLAVE_API clave_status clave_llm_next_each(clave_llm_conversation *const *conversations, size_t n,
                                           clave_llm_token *out, size_t *done) CLAVE_CHECK;
/* Text that is still held back, for who ends the text although clave_llm_next did not say stop. */
CLAVE_API clave_status clave_llm_flush(clave_llm_conversation *conversation, const char **text,
                                       size_t *size) CLAVE_CHECK;

typedef struct clave_llm_logprob {
  uint32_t id;
  float logprob; /* natural logarithm of the probability */
} clave_llm_logprob;
/* How likely the model holds the token that clave_llm_next gave last (*chosen; NULL: not asked for)
 * and the `count` likeliest, the likeliest first, of equal ones the smallest id: of the model's own
 * logits, before change_logits and the sampler. CLAVE_INVALID: the last call that changed the
 * conversation was not clave_llm_next, or count is above the vocabulary. */
CLAVE_API clave_status clave_llm_logprobs(const clave_llm_conversation *conversation,
                                          clave_llm_logprob *chosen, clave_llm_logprob *top,
                                          size_t count) CLAVE_CHECK;

/* All ids so far, borrowed until the next call. */
CLAVE_API const uint32_t *clave_llm_ids(const clave_llm_conversation *conversation, size_t *count);
/* As if it had just been created. */
CLAVE_API clave_status clave_llm_reset(clave_llm_conversation *conversation) CLAVE_CHECK;
/* Back to the first `count` ids, without running them again; what was drawn of random numbers stays
 * drawn. A chat goes back to the turn that stood there. CLAVE_INVALID: there are fewer ids.
 * CLAVE_UNSUPPORTED, with nothing changed, names the state tensor that cannot go back so far: one
 * that is not written token by token (recurrent), or a sliding window whose older rows are
 * overwritten. To 0 it always can. */
CLAVE_API clave_status clave_llm_rewind(clave_llm_conversation *conversation,
                                        size_t count) CLAVE_CHECK;
/* Takes back the last turn of the chat: its answer, and with `question` the messages before it. As
 * clave_llm_rewind, but where the state cannot go back the ids that stay are run again at the next
 * token. CLAVE_INVALID: there is no turn. */
CLAVE_API clave_status clave_llm_undo(clave_llm_conversation *conversation,
                                      bool question) CLAVE_CHECK;
/* The chat's messages so far as a JSON array, the answer in the making too; "[]" if what was
 * prompted is no chat. Ends in NUL, freed with clave_text_free. */
CLAVE_API clave_status clave_llm_messages(const clave_llm_conversation *conversation,
                                          char **messages) CLAVE_CHECK;
/* Another conversation that goes on from the same state; samplers are seeded as the first was. */
CLAVE_API clave_status clave_llm_fork(const clave_llm_conversation *conversation,
                                      clave_llm_conversation **out) CLAVE_CHECK;
/* Ids, state and the chat's messages, written whole or not at all; restoring checks that they
 * belong to this program. */
CLAVE_API clave_status clave_llm_save(const clave_llm_conversation *conversation,
                                      const char *path) CLAVE_CHECK;
CLAVE_API clave_status clave_llm_restore(clave_llm_conversation *conversation,
                                         const char *path) CLAVE_CHECK;

/* As clave_session_answered_by: what the last token was made by. The session's options may ask for
 * warm_up. */
CLAVE_API const char *clave_llm_answered_by(const clave_llm_conversation *conversation);

/* Of all runs since the conversation was created or reset. */
typedef struct clave_llm_stats {
  uint64_t prompt_tokens, decode_tokens; /* decode: after the first new token */
  double prompt_ms, decode_ms; /* running the prompt up to the first new token; the rest */
  double ttft_ms;              /* from the first prompt to its first new token */
  double load_ms;              /* program, tokenizer and session */
} clave_llm_stats;
CLAVE_API void clave_llm_get_stats(const clave_llm_conversation *conversation,
                                   clave_llm_stats *stats);

#ifdef __cplusplus
}
#endif
#endif
