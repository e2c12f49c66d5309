#ifndef LLM_PAGE_POOL_H
#define LLM_PAGE_POOL_H
/* Memory that conversations of a model share: the state of one session, in pages of page_rows
 * tokens (interp/passes/page_cache.c). Each page counts the conversations that use it; a page
 * without users is free. */
#include "llm/language_model.h"

typedef struct page_pool {
  struct page_pool *next; /* next pool in the model's list */
  int n_references;       /* number of conversations that use the pool */
  clave_session_options options;
  clave_session *session; /* owned */
  struct mutex *lock;     /* owned: protects the session and everything below */
  uint32_t *users;        /* owned, (n_pages): conversations per page */
  uint32_t n_pages, n_used;
} page_pool;

/* Returns the pool for these session options, which the first conversation creates. */
clave_status page_pool_acquire(clave_llm *llm, const clave_session_options *options,
                               page_pool **out) STATUS_CHECK;
void page_pool_release(clave_llm *llm, page_pool *pool); /* accepts NULL */

/* The caller of the following functions must hold the lock. */
/* Grows the pool, if necessary, so that at least n pages are free. */
clave_status page_pool_reserve(page_pool *pool, size_t n) STATUS_CHECK;
/* Returns a free page, now with one user and undefined contents. Needs page_pool_reserve first. */
uint32_t page_pool_alloc(page_pool *pool);
/* Removes a user of a page. When no page is used any more, the pool shrinks to its initial size. */
void page_pool_drop(const clave_llm *llm, page_pool *pool, uint32_t page);
/* Frees the memory after the last page in use. Returns true if there was any. */
bool page_pool_trim(page_pool *pool);
clave_status page_pool_copy(const clave_llm *llm, page_pool *pool, uint32_t from,
                            uint32_t to) STATUS_CHECK;

#endif
