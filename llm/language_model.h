#ifndef LLM_LANGUAGE_MODEL_H
#define LLM_LANGUAGE_MODEL_H
/* The objects behind clave_llm.h's language models: what a program promises (docs/llm.md), and the
 * model that conversations share. */
#include <stdatomic.h>

#include "base/memory.h"
#include "base/status.h"
#include "clave_llm.h"
#include "clave_template.h"
#include "llm/scratch.h"

/* How a method is told where its tokens stand. */
typedef enum position_form {
  POSITION_SCALAR, /* of the first token: (), or a host scalar */
  POSITION_VECTOR, /* of the first token: (1) */
  POSITION_EACH    /* of every token: (L) */
} position_form;

/* A method that takes tokens and their position and gives the logits of the last, or of all. */
typedef struct llm_method {
  const char *name; /* borrowed from the program that sessions run, which finds it by address */
  int64_t min_tokens, max_tokens;
  clave_dtype tokens_type, position_type; /* I64 or I32 */
  int tokens_rank;                        /* 2: (1, L); 1: (L) */
  position_form position;
  int64_t n_vocab;
  bool all_logits; /* of every token, not of the last alone */
  bool takes_rows; /* in pages: an input says of which tokens */
} llm_method;

/* A state tensor of a program in pages, (pages, heads, page_rows, ...). */
typedef struct llm_page_state {
  size_t heads, row_bytes;
} llm_page_state;

/* Tokens of one of the sequences in a run. */
typedef struct llm_run_part {
  const uint32_t *ids;   /* (n) */
  size_t n, position;    /* where the first one stands */
  const uint32_t *pages; /* (n_pages) */
  size_t n_pages;
  bool all_logits; /* of all its tokens, if rows can be chosen; else of the last */
} llm_run_part;

enum { LLM_METHODS = 2 };
/* Tokens that there is room for at first: in caches, pools of pages and page tables. */
enum { LLM_FIRST_TOKENS = 256 };

/* What a program's metadata says of the language model in it; what it does not say is derived. */
typedef struct llm_metadata {
  int64_t max_context; /* 0: not said */
  bool has_bos, has_eos, has_stop_ids, has_sampling;
  bool has_do_sample; /* `sampling` has the key do_sample */
  int32_t bos, eos;   /* CLAVE_NO_TOKEN: it has none */
  uint32_t *stop_ids; /* in the pool */
  size_t n_stop_ids;
  const char *chat_template;  /* in the pool; a name, or a template's own text; NULL: not said */
  const char *default_system; /* in the pool: the system message of chats without one; NULL: none */
  clave_sampler_options sampling;
} llm_metadata;
/* said: the program's metadata, JSON or "". Errors name the key. */
clave_status llm_metadata_read(mem_pool *pool, const char *said, llm_metadata *out) STATUS_CHECK;

struct clave_llm {
  atomic_int holds; /* the caller's and its conversations' */
  mem_pool *pool;
  clave_program *program;          /* owned */
  clave_device *device;            /* retained */
  clave_tokenizer *tokenizer;      /* owned; NULL: ids only */
  llm_method methods[LLM_METHODS]; /* "prefill" first, if there is one */
  int n_methods;
  scratch_pool scratch;
  clave_llm_info info;
  const char *room_name; /* borrowed from the program: the size of its caches that sessions choose;
                            NULL: none */
  int64_t most_room;
  clave_program *paged; /* owned: of `program`, for conversations that share a pool of pages; NULL:
                           each has a session of its own */
  llm_page_state *page_states; /* (n_page_states) in pool */
  uint32_t n_page_states;
  struct mutex *pools_lock;  /* owned */
  struct page_pool *pools;   /* a list, of conversations */
  int32_t eos;               /* CLAVE_NO_TOKEN: none */
  char *bos_text, *eos_text; /* owned; NULL: none, or no tokenizer */
  clave_template *chat;      /* owned; NULL: none, or one that we cannot read */
  const char *default_system;
  clave_sampler_options sampling;      /* of the model's authors; info points to it if they say */
  clave_sampler_options chat_sampling; /* of chats whose caller sets none */
  double load_ms;                      /* program and tokenizer */
};

/* load.c: whether it ends an answer. */
bool llm_is_stop_id(const clave_llm *llm, uint32_t id);
/* own_session.c: finds room_name and most_room. */
clave_status llm_room_find(clave_llm *llm) STATUS_CHECK;
/* methods.c: the methods of the program, refused where they are not as docs/llm.md wants. */
clave_status llm_methods_read(const clave_program *program, llm_method methods[LLM_METHODS],
                              int *count) STATUS_CHECK;
clave_status llm_find_method(const clave_program *program, const char *name, clave_method_info *out,
                             bool *found) STATUS_CHECK;
/* The longest context that the shapes allow, 0 if they do not say. */
clave_status llm_methods_context(const clave_program *program, const llm_method *methods, int count,
                                 int64_t *longest) STATUS_CHECK;
/* The method that takes most of `taken` tokens at once, and in *taken how many. */
const llm_method *llm_methods_choose(const llm_method *methods, int count, size_t *taken);
/* Runs `n` tokens that stand at `position`. */
clave_status llm_method_run(const llm_method *method, clave_session *session, const uint32_t *ids,
                            size_t n, size_t position) STATUS_CHECK;
/* Runs tokens of all parts, of a program in pages. */
clave_status llm_method_run_parts(const llm_method *method, clave_session *session,
                                  const llm_run_part *parts, size_t n_parts,
                                  size_t page_rows) STATUS_CHECK;
/* The logits of the last run as floats, (n_vocab): of the row `back` before the last. */
clave_status llm_method_logits(const llm_method *method, clave_session *session, size_t back,
                               float *out) STATUS_CHECK;
/* paging.c: makes `paged` of the program, if its state is caches that may lie in pages. */
clave_status llm_page(clave_llm *llm) STATUS_CHECK;
static inline size_t llm_page_bytes(const clave_llm *llm, uint32_t state) {
  return llm->page_states[state].heads * llm->page_states[state].row_bytes * llm->info.page_rows;
}

/* state.c: whether state that holds `written` tokens holds the first `count` of them as they were
 * before the others came, by how the methods write it. UNSUPPORTED names a tensor that does not. */
clave_status llm_states_go_back(const clave_llm *llm, size_t written, size_t count) STATUS_CHECK;

#endif
