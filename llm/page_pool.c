/* Pools of pages: sharing by session options, free pages, growth. */
#include "llm/page_pool.h"

#include <stdlib.h>
#include <string.h>

#include "base/threads.h"

/* ---------------------------------------------------------------- sharing */

/* The fields of clave_session_options after `size`, in order. */
#define SESSION_OPTIONS(X) \
  X(memory_budget)         \
  X(poison)                \
  X(profile)               \
  X(fast)                  \
  X(progress)              \
  X(progress_ctx)          \
  X(unfused)               \
  X(unchecked) X(cancel) X(cancel_ctx) X(seed) X(warm_up) X(allow_custom_kernels) X(wide) X(strict)
#define OPTION(name) options->name,
#define IS_SAME(name) &&left->name == right->name

/* If the list lacks a field, the compiler reports a missing initializer here. */
static clave_session_options copy_options(const clave_session_options *options) {
  return (clave_session_options){options->size, SESSION_OPTIONS(OPTION)};
}

static bool same_options(const clave_session_options *left, const clave_session_options *right) {
  return left->size == right->size SESSION_OPTIONS(IS_SAME);
}

static void page_pool_destroy(page_pool *pool) {
  clave_session_destroy(pool->session);
  mutex_destroy(pool->lock);
  free(pool->users);
  free(pool);
}

/* Resizes the pool to n pages and keeps the contents of the first ones. */
static clave_status set_pages(page_pool *pool, uint32_t n) {
  uint32_t most = n > pool->n_pages ? n : pool->n_pages;
  uint32_t *users = realloc(pool->users, ((size_t)most + 1) * sizeof *users);
  if (!users) return status_no_memory();
  pool->users = users;
  TRY(clave_session_resize(pool->session, "pages", n));
  if (n > pool->n_pages) memset(users + pool->n_pages, 0, (n - pool->n_pages) * sizeof *users);
  pool->n_pages = n;
  return NULL;
}

static uint32_t first_pages(const clave_llm *llm) {
  uint32_t most = LLM_FIRST_TOKENS,
           tokens = llm->info.max_context < most ? llm->info.max_context : most;
  return (tokens + llm->info.page_rows - 1) / llm->info.page_rows;
}

static clave_status init_pool(clave_llm *llm, page_pool *pool) {
  TRY(mutex_create(&pool->lock));
  TRY(clave_session_create(llm->paged, llm->device, &pool->options, &pool->session));
  return set_pages(pool, first_pages(llm));
}

static clave_status make_pool(clave_llm *llm, const clave_session_options *options,
                              page_pool **out) {
  page_pool *pool = calloc(1, sizeof *pool);
  if (!pool) return status_no_memory();
  pool->options = copy_options(options);
  clave_status st = init_pool(llm, pool);
  if (st) {
    page_pool_destroy(pool);
    return st;
  }
  pool->next = llm->pools;
  llm->pools = *out = pool;
  return NULL;
}

clave_status page_pool_acquire(clave_llm *llm, const clave_session_options *options,
                               page_pool **out) {
  clave_status st = NULL;
  mutex_lock(llm->pools_lock);
  *out = llm->pools;
  while (*out && !same_options(&(*out)->options, options)) *out = (*out)->next;
  if (!*out) st = make_pool(llm, options, out);
  if (*out) (*out)->n_references++;
  mutex_unlock(llm->pools_lock);
  return st;
}

void page_pool_release(clave_llm *llm, page_pool *pool) {
  if (!pool) return;
  mutex_lock(llm->pools_lock);
  bool last = --pool->n_references == 0;
  page_pool **at = &llm->pools;
  while (last && *at != pool) at = &(*at)->next;
  if (last) *at = pool->next;
  mutex_unlock(llm->pools_lock);
  if (last) page_pool_destroy(pool);
}

/* ---------------------------------------------------------------- pages */

/* Grows by half, or, if there is no memory for that, only as far as needed. */
clave_status page_pool_reserve(page_pool *pool, size_t n) {
  size_t needed = pool->n_used + n, more = pool->n_pages + pool->n_pages / 2;
  if (needed <= pool->n_pages) return NULL;
  if (needed > UINT32_MAX) return status_no_memory();
  clave_status st = more > needed ? set_pages(pool, (uint32_t)more) : NULL;
  clave_status_free(st);
  return needed <= pool->n_pages ? NULL : set_pages(pool, (uint32_t)needed);
}

uint32_t page_pool_alloc(page_pool *pool) {
  uint32_t i = 0;
  while (pool->users[i]) i++;
  pool->users[i] = 1;
  pool->n_used++;
  return i;
}

void page_pool_drop(const clave_llm *llm, page_pool *pool, uint32_t page) {
  if (--pool->users[page]) return;
  if (--pool->n_used || pool->n_pages == first_pages(llm)) return;
  clave_status_free(set_pages(pool, first_pages(llm)));
}

bool page_pool_trim(page_pool *pool) {
  uint32_t n = pool->n_pages;
  while (n > 1 && !pool->users[n - 1]) n--;
  if (n == pool->n_pages) return false;
  clave_status st = set_pages(pool, n);
  clave_status_free(st);
  return !st;
}

clave_status page_pool_copy(const clave_llm *llm, page_pool *pool, uint32_t from, uint32_t to) {
  for (uint32_t i = 0; i < llm->n_page_states; i++) {
    size_t bytes = llm_page_bytes(llm, i);
    TRY(clave_session_copy_state_part(pool->session, i, from * bytes, to * bytes, bytes));
  }
  return NULL;
}
