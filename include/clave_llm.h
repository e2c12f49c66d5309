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
 * The rules of clave.h hold: a status is NULL or an error to free, `out` comes last, and destroy
 * releases what create or load made. Text is UTF-8 with a size: no final NUL is needed, and NULs
 * may occur in it. */
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
  float bias; /* added to the logit; -INFINITY excludes the id */
} clave_logit_bias;

/* Options in the order in which they are applied; a zeroed struct means greedy. */
typedef struct clave_sampler_options {
  size_t size; /* sizeof(clave_sampler_options) */
  const clave_logit_bias *bias;
  size_t n_bias;
  float repetition_penalty; /* for ids among the last `penalty_window`: logit / p if positive, else
                               logit * p (Keskar et al. 2019); 0 or 1: none */
  float presence_penalty;   /* subtracted once for each id in that window */
  float frequency_penalty;  /* subtracted for each occurrence in that window */
  uint32_t penalty_window;  /* ids, including the prompt; 0: the whole conversation */
  float temperature;        /* divides the logits; 0: take the largest logit (on ties the smallest
                               id) and ignore the options below */
  uint32_t top_k;           /* keep the k largest; 0: all */
  float top_p;              /* then keep the fewest ids whose probabilities add up to this
                               (nucleus); 0 or 1: all */
  float min_p;              /* then keep ids with at least min_p times the top probability; 0:
                               all */
  uint64_t seed;            /* equal seeds, logits and options pick equal ids on every machine */
} clave_sampler_options;

typedef struct clave_sampler clave_sampler;
/* Copies the bias. CLAVE_INVALID names an option that is out of range. */
CLAVE_API clave_status clave_sampler_create(const clave_sampler_options *options,
                                            clave_sampler **out) CLAVE_CHECK;
/* Samples one id from `count` logits; `seen`: the conversation's ids. A NaN is CLAVE_INVALID. */
CLAVE_API clave_status clave_sampler_sample(clave_sampler *sampler, const float *logits,
                                            size_t count, const uint32_t *seen, size_t n_seen,
                                            uint32_t *id) CLAVE_CHECK;
CLAVE_API void clave_sampler_destroy(clave_sampler *sampler);

/* ---------------------------------------------------------------- language models */

/* Makes the tokenizer that a .clv carries. CLAVE_INVALID if it carries none. */
CLAVE_API clave_status clave_tokenizer_of_program(const clave_program *program,
                                                  clave_tokenizer **out) CLAVE_CHECK;

/* A program with its tokenizer on a device; docs/reference/language_models.md lists the methods
 * that it must have. Its conversations share the weights. */
typedef struct clave_llm clave_llm;

typedef struct clave_llm_options {
  size_t size;           /* sizeof(clave_llm_options) */
  const char *tokenizer; /* a file or folder; NULL: the one in the .clv, if any */
  const clave_tokenizer_options *tokenizer_options; /* for `tokenizer`; NULL: the defaults */
  const char *consts;                               /* as in clave_program_options */
  const char *chat_template; /* a name, a Jinja text, or a file as in clave_template_load; NULL: the
                                template in the program */
  uint32_t max_context;      /* tokens, at most what the program was made for; 0: that number. For a
                                .gguf: any number; 0: its own context, at most 4096 */
  const void *clv; /* bytes of a .clv (clv_size), read instead of the file `path`, which then only
                      names it in messages; see clave_program_load_bytes. NULL: the file */
  size_t clv_size;
  const char *kv; /* as in clave_program_options; NULL: f16 */
} clave_llm_options;

/* Sampling of chats if the program has no settings. */
#define CLAVE_LLM_CHAT_TEMPERATURE 0.8F
#define CLAVE_LLM_CHAT_MIN_P 0.05F

typedef struct clave_llm_info {
  size_t size;                      /* sizeof(clave_llm_info) */
  uint32_t max_context;             /* tokens, prompts and answers together */
  uint32_t n_vocab;                 /* number of logits per token */
  const clave_tokenizer *tokenizer; /* NULL if none exists: ids only */
  int32_t bos;                      /* id that prompts begin with; CLAVE_NO_TOKEN: none */
  const uint32_t *stop_ids;         /* ids that end a text */
  size_t n_stop_ids;
  const char *chat_template; /* name of a built-in, or a Jinja text; NULL: not a chat model */
  const clave_sampler_options *sampling; /* the model authors' settings, not the default; NULL:
                                            unknown */
  uint32_t page_rows;                    /* tokens per page of the memory that conversations share
                                            (docs/howto/kv_cache.md); 0: each has its own memory */
  const clave_sampler_options *chat_sampling; /* default of chats: the model authors' settings, else
                                                 CLAVE_LLM_CHAT_TEMPERATURE, _MIN_P */
} clave_llm_info;

/* Imports a language model in ONNX with its tokenizer, chat template and settings. path: a folder
 * of onnxruntime-genai (genai_config.json) or of transformers.js (config.json, onnx/), or a graph
 * in such a folder. */
CLAVE_API clave_status clave_llm_import(const char *path, clave_program **out) CLAVE_CHECK;

/* Loads a language model, which keeps the device alive. path: a .clv or .json program, a .gguf
 * file, or what clave_llm_import accepts. */
CLAVE_API clave_status clave_llm_load(const char *path, clave_device *device,
                                      const clave_llm_options *options,
                                      clave_llm **out) CLAVE_CHECK;
CLAVE_API clave_status clave_llm_get_info(const clave_llm *llm, clave_llm_info *info) CLAVE_CHECK;
CLAVE_API void clave_llm_destroy(clave_llm *llm); /* conversations keep the model alive */

/* A chat message. Texts of messages, tools and documents never turn into special tokens; only the
 * chat template itself writes those. */
typedef struct clave_llm_message {
  const char *role; /* "system", "user" or "assistant" */
  const char *content;
  size_t content_size;
} clave_llm_message;
/* Renders messages by the chat template, up to where the assistant answers, and encodes them.
 * template_name: a built-in's; NULL: the model's own. CLAVE_INVALID: the template raised an
 * exception, which is the message. CLAVE_UNSUPPORTED names the part of the template that clave
 * cannot read. */
CLAVE_API clave_status clave_llm_chat_ids(const clave_llm *llm, const char *template_name,
                                          const clave_llm_message *messages, size_t count,
                                          clave_ids *out) CLAVE_CHECK;
/* Lists texts that the model's chat template writes and that look like special tokens
 * ("<|im_start|>") but are not the tokenizer's, separated by commas; "" for none. Free with
 * clave_text_free. */
CLAVE_API clave_status clave_llm_chat_unknown_tokens(const clave_llm *llm,
                                                     char **tokens) CLAVE_CHECK;
/* Same as clave_template_builtin. */
CLAVE_API const char *clave_llm_chat_template_name(size_t index);
/* Renders messages (JSON), tools, documents and arguments by the model's chat template. If the
 * messages do not begin with a system message, the model's default one is added. bos and eos: NULL
 * for the model's. The text ends in NUL; free it with clave_text_free. */
CLAVE_API clave_status clave_llm_render(const clave_llm *llm, const clave_template_inputs *inputs,
                                        char **text, size_t *size) CLAVE_CHECK;
/* Renders to ids. Texts of messages do not turn into special tokens. Free with clave_ids_free. */
CLAVE_API clave_status clave_llm_render_ids(const clave_llm *llm,
                                            const clave_template_inputs *inputs,
                                            clave_ids *out) CLAVE_CHECK;
/* Like clave_template_ignores, for the model's chat template. */
CLAVE_API clave_status clave_llm_template_ignores(const clave_llm *llm,
                                                  const clave_template_inputs *inputs, bool *tools,
                                                  bool *documents) CLAVE_CHECK;

/* A text that is being written: its ids so far and the state of the model after them. */
typedef struct clave_llm_conversation clave_llm_conversation;

/* Called before each token is sampled, with a copy of the logits (count), which it may change
 * (-INFINITY excludes an id), and the ids so far. The sampler's bias and penalties apply
 * afterwards. If it returns false, clave_llm_next fails with CLAVE_INVALID. */
typedef bool (*clave_llm_logits_fn)(void *ctx, float *logits, size_t count, const uint32_t *ids,
                                    size_t n_ids);

typedef struct clave_llm_conversation_options {
  size_t size;                          /* sizeof(clave_llm_conversation_options) */
  const clave_sampler_options *sampler; /* NULL: greedy */
  const char *const *stop;              /* texts that end the answer and are not part of it */
  size_t n_stop;
  bool ignore_stop_ids;   /* do not stop at the model's stop ids */
  uint32_t prefill_chunk; /* prompt tokens per run; 0: the program's maximum, at most 512 */
  const clave_session_options *session; /* NULL: the defaults */
  clave_llm_logits_fn change_logits;    /* NULL: none; forks inherit it */
  void *change_logits_ctx;
} clave_llm_conversation_options;

CLAVE_API clave_status clave_llm_conversation_create(clave_llm *llm,
                                                     const clave_llm_conversation_options *options,
                                                     clave_llm_conversation **out) CLAVE_CHECK;
CLAVE_API void clave_llm_conversation_destroy(clave_llm_conversation *conversation);

/* Replaces the sampler (NULL: greedy); random numbers continue. On failure nothing changes. */
CLAVE_API clave_status clave_llm_set_sampler(clave_llm_conversation *conversation,
                                             const clave_sampler_options *options) CLAVE_CHECK;

/* Appends ids to the text; the next clave_llm_next runs the model over them, in chunks.
 * CLAVE_INVALID, with nothing appended: an id is out of range, or the context would have no room
 * for another token. */
CLAVE_API clave_status clave_llm_prompt(clave_llm_conversation *conversation, const uint32_t *ids,
                                        size_t count) CLAVE_CHECK;
/* Appends the ids of a text, after the model's BOS if the conversation is empty. */
CLAVE_API clave_status clave_llm_prompt_text(clave_llm_conversation *conversation, const char *text,
                                             size_t size) CLAVE_CHECK;
/* Appends messages to the conversation's chat, in which the text generated since the last call is
 * the answer. The whole chat is rendered. If the rendering begins with the earlier one and the
 * answer, only the rest is run; if the template renders earlier turns differently, the conversation
 * is reset and all of it is run. */
CLAVE_API clave_status clave_llm_prompt_chat(clave_llm_conversation *conversation,
                                             const char *template_name,
                                             const clave_llm_message *messages,
                                             size_t count) CLAVE_CHECK;

/* Does the same with JSON messages, tools, documents and arguments. bos, eos: NULL: the model's. */
CLAVE_API clave_status clave_llm_prompt_messages(clave_llm_conversation *conversation,
                                                 const clave_template_inputs *inputs) CLAVE_CHECK;

/* Appends ids to the conversation and runs them. log_probabilities: (count), the natural logarithm
 * of each id's probability given all ids before it; NAN for the first id of a conversation. A model
 * that only returns the logits of its last token runs them one by one. CLAVE_INVALID (an id out of
 * range, or too many for the context) appends nothing; after any other error the conversation must
 * be reset. */
CLAVE_API clave_status clave_llm_score(clave_llm_conversation *conversation, const uint32_t *ids,
                                       size_t count, double *log_probabilities) CLAVE_CHECK;

typedef enum clave_llm_stop {
  CLAVE_LLM_GOES_ON = 0,
  CLAVE_LLM_STOP_ID,     /* a stop id of the model, not part of the text */
  CLAVE_LLM_STOP_TEXT,   /* a text of options.stop */
  CLAVE_LLM_CONTEXT_FULL /* this token was the last that fits */
} clave_llm_stop;
CLAVE_API const char *clave_llm_stop_name(clave_llm_stop stop); /* "stop_id" */

typedef struct clave_llm_token {
  uint32_t id;
  const char *text; /* whole characters, may be empty; text that may begin a stop text is held back.
                       Valid until the next call. NULL without a tokenizer */
  size_t text_size;
  clave_llm_stop stop;
} clave_llm_token;
/* Generates the next token. CLAVE_INVALID: nothing was prompted, or the context is full. After a
 * stop the conversation can continue with another prompt. After an error (the session's `cancel`
 * causes one) the conversation is as before the call, except for prompt chunks that were run. */
CLAVE_API clave_status clave_llm_next(clave_llm_conversation *conversation,
                                      clave_llm_token *out) CLAVE_CHECK;
/* Generates the next token of each of n conversations of one model, as clave_llm_next does.
 * Conversations that share their memory run together, so that the weights are read once for all.
 * *done: number of tokens generated; after an error conversations[*done] and later ones are as
 * after a failed clave_llm_next. CLAVE_INVALID: a conversation is repeated or of another model. */
CLAVE_API clave_status clave_llm_next_each(clave_llm_conversation *const *conversations, size_t n,
                                           clave_llm_token *out, size_t *done) CLAVE_CHECK;
/* Returns the text held back, for callers that end the answer before clave_llm_next does. */
CLAVE_API clave_status clave_llm_flush(clave_llm_conversation *conversation, const char **text,
                                       size_t *size) CLAVE_CHECK;

typedef struct clave_llm_logprob {
  uint32_t id;
  float logprob; /* natural logarithm of the probability */
} clave_llm_logprob;
/* Returns the log probability of the last token of clave_llm_next (*chosen; may be NULL) and the
 * `count` most likely tokens, most likely first (on ties the smallest id first). They come from the
 * model's own logits, before change_logits and the sampler. CLAVE_INVALID: the last call that
 * changed the conversation was not clave_llm_next, or count exceeds the vocabulary. */
CLAVE_API clave_status clave_llm_logprobs(const clave_llm_conversation *conversation,
                                          clave_llm_logprob *chosen, clave_llm_logprob *top,
                                          size_t count) CLAVE_CHECK;

/* Returns all ids so far, borrowed until the next call. */
CLAVE_API const uint32_t *clave_llm_ids(const clave_llm_conversation *conversation, size_t *count);
/* Resets the conversation to its state after creation. */
CLAVE_API clave_status clave_llm_reset(clave_llm_conversation *conversation) CLAVE_CHECK;
/* Goes back to the first `count` ids, without running them again; random numbers already drawn stay
 * drawn. A chat goes back to the turn at that point. CLAVE_INVALID: there are fewer ids.
 * CLAVE_UNSUPPORTED, with nothing changed, names the state tensor that cannot go back so far:
 * recurrent state, which is not written token by token, or a sliding window whose older rows are
 * overwritten. Going back to 0 always works. */
CLAVE_API clave_status clave_llm_rewind(clave_llm_conversation *conversation,
                                        size_t count) CLAVE_CHECK;
/* Removes the last turn of the chat: its answer and, with `question`, the messages before it. Like
 * clave_llm_rewind, but if the state cannot go back, the next token runs the remaining ids again.
 * CLAVE_INVALID: there is no turn. */
CLAVE_API clave_status clave_llm_undo(clave_llm_conversation *conversation,
                                      bool question) CLAVE_CHECK;
/* Returns the chat's messages so far as a JSON array, including an unfinished answer; "[]" if the
 * prompt was not a chat. The text ends in NUL; free it with clave_text_free. */
CLAVE_API clave_status clave_llm_messages(const clave_llm_conversation *conversation,
                                          char **messages) CLAVE_CHECK;
/* Makes a conversation that continues from the same state and draws the same random numbers. */
CLAVE_API clave_status clave_llm_fork(const clave_llm_conversation *conversation,
                                      clave_llm_conversation **out) CLAVE_CHECK;
/* Writes ids, state and the chat's messages to a file; a failure leaves no partial file. Restoring
 * checks that they belong to this program. */
CLAVE_API clave_status clave_llm_save(const clave_llm_conversation *conversation,
                                      const char *path) CLAVE_CHECK;
CLAVE_API clave_status clave_llm_restore(clave_llm_conversation *conversation,
                                         const char *path) CLAVE_CHECK;

/* Like clave_session_answered_by, for the last token: see options.session's warm_up. */
CLAVE_API const char *clave_llm_answered_by(const clave_llm_conversation *conversation);

/* Counts and times since the conversation was created or reset. */
typedef struct clave_llm_stats {
  uint64_t prompt_tokens, decode_tokens; /* decode: all but the first after each prompt */
  double prompt_ms, decode_ms;           /* prompt: up to the first token after it */
  double ttft_ms;                        /* from the first prompt to its first new token */
  double load_ms;                        /* loading the program, tokenizer and session */
} clave_llm_stats;
CLAVE_API void clave_llm_get_stats(const clave_llm_conversation *conversation,
                                   clave_llm_stats *stats);

#ifdef __cplusplus
}
#endif
#endif
