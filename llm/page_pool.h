#ifndef LLM_PAGE_POOL_H
#define LLM_PAGE_POOL_H
/* The memory that conversations of a model share: the state of one session, in pages of as many
 * tokens as the program says (interp/passes/page_cache.c). A page has as many users as
 * conversations have it, and is free without any. */
#include "llm/language_model.h"

typedef struct page_pool {
  struct page_pool *next; /* of the model's list */
  int holds;              /* conversations */
  clave_session_options options;
  clave_session *session; /* owned */
  struct mutex *lock;     /* owned: of the session, and of all below */
  uint32_t *users;        /* owned (n_pages) */
  uint32_t n_pages, n_used;
} page_pool;

/* The pool of conversations with these session options; made for the first of them. */
clave_status page_pool_take(clave_llm *llm, const clave_session_options *options,
                            page_pool **out) STATUS_CHECK;
void page_pool_give(clave_llm *llm, page_pool *pool); /* takes NULL */

/* While the lock is held: */
/* There are n pages without users, or more. */
clave_status page_pool_reserve(page_pool *pool, size_t n) STATUS_CHECK;
/* Then: one of them, which has a user now, with anything in it. */
uint32_t page_pool_alloc(page_pool *pool);
/* A user less. Without any page in use the pool is as small again as at first. */
void page_pool_drop(const clave_llm *llm, page_pool *pool, uint32_t page);
/* Gives back the memory behind the last page in use; whether there was any. */
bool page_pool_trim(page_pool *pool);
clave_status page_pool_copy(const clave_llm *llm, page_pool *pool, uint32_t from,
                            uint32_t to) STATUS_CHECK;

#endif
