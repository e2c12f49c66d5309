#ifndef LLM_LANGUAGE_MODEL_H
#define LLM_LANGUAGE_MODEL_H
/* The implementation of clave_llm.h's language models: the properties that a program declares
 * (docs/reference/language_models.md), and the model that conversations share. */
#include <stdatomic.h>

#include "base/memory.h"
#include "base/status.h"
#include "clave_llm.h"
#include "clave_template.h"
#include "llm/scratch.h"

/* The way in which a method receives the positions of its tokens. */
typedef enum position_kind {
  POSITION_SCALAR, /* position of the first token: (), or a host scalar */
  POSITION_VECTOR, /* position of the first token: (1) */
  POSITION_EACH    /* position of every token: (L) */
} position_kind;

/* A method that maps tokens and their position to the logits of the last token, or of all. */
typedef struct llm_method {
  const char *name; /* borrowed from the sessions' program, which looks it up by address */
  int64_t min_tokens, max_tokens;
  clave_dtype tokens_type, position_type; /* I64 or I32 */
  int tokens_rank;                        /* 2: (1, L); 1: (L) */
  position_kind position;
  int64_t n_vocab;
  bool all_logits;   /* returns logits of every token, not only of the last */
  bool accepts_rows; /* paged programs: an input selects the tokens whose logits are returned */
} llm_method;

/* A state tensor of a paged program: (pages, heads, page_rows, ...). */
typedef struct llm_page_state {
  size_t heads, row_bytes;
} llm_page_state;

/* The tokens of one sequence in a run. */
typedef struct llm_run_chunk {
  const uint32_t *ids;   /* (n) */
  size_t n, position;    /* position: of the first token */
  const uint32_t *pages; /* (n_pages) */
  size_t n_pages;
  bool all_logits; /* compute logits of all its tokens instead of the last only; ignored if the
                      program cannot select rows */
} llm_run_chunk;

enum { LLM_METHODS = 2 };
/* Initial capacity, in tokens, of caches, page pools and page tables. */
enum { LLM_FIRST_TOKENS = 256 };

/* The language model part of a program's metadata. Values that are absent there are derived. */
typedef struct llm_metadata {
  int64_t max_context; /* 0 if absent */
  bool no_pages;       /* tokens of several conversations must not be in one run */
  bool has_bos, has_eos, has_stop_ids, has_sampling;
  bool has_do_sample; /* `sampling` has the key do_sample */
  int32_t bos, eos;   /* CLAVE_NO_TOKEN if the model has none */
  uint32_t *stop_ids; /* in pool */
  size_t n_stop_ids;
  const char *chat_template;  /* in pool: a name, or the text of a template; NULL if absent */
  const char *default_system; /* in pool: the system message of chats without one; NULL if absent */
  clave_sampler_options sampling;
} llm_metadata;
/* Reads the metadata. metadata: JSON or "". Errors name the key. */
clave_status llm_metadata_read(mem_pool *pool, const char *metadata,
                               llm_metadata *out) STATUS_CHECK;

struct clave_llm {
  atomic_int n_references; /* held by the caller and by conversations */
  mem_pool *pool;
  clave_program *program;          /* owned */
  clave_device *device;            /* retained */
  clave_tokenizer *tokenizer;      /* owned; NULL if conversations use ids only */
  llm_method methods[LLM_METHODS]; /* "prefill" first, if there is one */
  int n_methods;
  scratch_pool scratch;
  clave_llm_info info;
  const char *capacity_name; /* borrowed from the program: name of the dynamic size that is the
                                capacity of its caches; NULL if none exists */
  int64_t max_capacity;
  clave_program *paged; /* owned: `program` in its paged version, for conversations that share a
                           pool of pages; NULL if each has its own session */
  llm_page_state *page_states; /* (n_page_states), in pool */
  uint32_t n_page_states;
  struct mutex *pools_lock;  /* owned */
  struct page_pool *pools;   /* list of the pools of conversations */
  int32_t eos;               /* CLAVE_NO_TOKEN if none */
  char *bos_text, *eos_text; /* owned; NULL if none exists, or no tokenizer */
  clave_template *chat;      /* owned; NULL if none exists, or it is not supported */
  bool no_pages;             /* each conversation has its own session */
  const char *default_system;
  clave_sampler_options sampling;      /* the model authors' settings; info points to it if given */
  clave_sampler_options chat_sampling; /* for chats whose caller sets none */
  double load_ms;                      /* time to load program and tokenizer */
};

/* load.c: true if the id ends an answer. */
bool llm_is_stop_id(const clave_llm *llm, uint32_t id);
/* own_session.c: sets capacity_name and max_capacity. */
clave_status llm_capacity_find(clave_llm *llm) STATUS_CHECK;
/* methods.c: reads the methods of the program. Fails if one does not conform to
 * docs/reference/language_models.md. */
clave_status llm_methods_read(const clave_program *program, llm_method methods[LLM_METHODS],
                              int *count) STATUS_CHECK;
clave_status llm_find_method(const clave_program *program, const char *name, clave_method_info *out,
                             bool *found) STATUS_CHECK;
/* Sets *longest to the longest context that the shapes allow; 0 if they do not limit it. */
clave_status llm_methods_context(const clave_program *program, const llm_method *methods, int count,
                                 int64_t *longest) STATUS_CHECK;
/* Returns the method that runs the largest number of tokens at once, at most *n_tokens, and sets
 * *n_tokens to this number. Returns NULL if no method can run. */
const llm_method *llm_methods_choose(const llm_method *methods, int count, size_t *n_tokens);
/* Runs `n` tokens, the first at `position`. */
clave_status llm_method_run(const llm_method *method, clave_session *session, const uint32_t *ids,
                            size_t n, size_t position) STATUS_CHECK;
/* Runs the tokens of all chunks in a paged program. */
clave_status llm_method_run_chunks(const llm_method *method, clave_session *session,
                                   const llm_run_chunk *chunks, size_t n_chunks,
                                   size_t page_rows) STATUS_CHECK;
/* Converts the logits of the last run, row `back` before the last one, to floats (n_vocab). */
clave_status llm_method_logits(const llm_method *method, clave_session *session, size_t back,
                               float *out) STATUS_CHECK;
/* paging.c: sets `paged` if the pass page_cache can move the program's state into pages. */
clave_status llm_page(clave_llm *llm) STATUS_CHECK;
static inline size_t llm_page_bytes(const clave_llm *llm, uint32_t state) {
  return llm->page_states[state].heads * llm->page_states[state].row_bytes * llm->info.page_rows;
}

/* state.c: checks that the state after `n_written` tokens still contains the first `count` tokens
 * unchanged. If a tensor does not, returns UNSUPPORTED with its name. */
clave_status llm_states_check_rewind(const clave_llm *llm, size_t n_written,
                                     size_t count) STATUS_CHECK;

#endif
