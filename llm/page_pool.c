/* Pools of pages: who shares one, which pages are free, growth. */
#include "llm/page_pool.h"

#include <stdlib.h>
#include <string.h>

#include "base/threads.h"

/* ---------------------------------------------------------------- whose it is */

/* The fields behind the size, in their order. */
#define SESSION_OPTIONS(X) \
  X(memory_budget)         \
  X(poison)                \
  X(profile)               \
  X(fast)                  \
  X(progress)              \
  X(progress_ctx)          \
  X(unfused)               \
  X(unchecked) X(cancel) X(cancel_ctx) X(seed) X(warm_up) X(allow_custom_kernels) X(wide) X(strict)
#define OPTION(name) o->name,
#define IS_SAME(name) &&a->name == b->name

/* One that the list lacks is a missing initializer here, which is an error. */
static clave_session_options copy_options(const clave_session_options *o) {
  return (clave_session_options){o->size, SESSION_OPTIONS(OPTION)};
}

static bool same_options(const clave_session_options *a, const clave_session_options *b) {
  return a->size == b->size SESSION_OPTIONS(IS_SAME);
}

static void destroy_pool(page_pool *p) {
  clave_session_destroy(p->session);
  mutex_destroy(p->lock);
  free(p->users);
  free(p);
}

/* With n pages, of which the first ones have what they had. */
static clave_status set_pages(page_pool *p, uint32_t n) {
  uint32_t most = n > p->n_pages ? n : p->n_pages;
  uint32_t *users = realloc(p->users, ((size_t)most + 1) * sizeof *users);
  if (!users) return status_no_memory();
  p->users = users;
  TRY(clave_session_resize(p->session, "pages", n));
  if (n > p->n_pages) memset(users + p->n_pages, 0, (n - p->n_pages) * sizeof *users);
  p->n_pages = n;
  return NULL;
}

static uint32_t first_pages(const clave_llm *l) {
  uint32_t most = LLM_FIRST_TOKENS,
           tokens = l->info.max_context < most ? l->info.max_context : most;
  return (tokens + l->info.page_rows - 1) / l->info.page_rows;
}

static clave_status init_pool(clave_llm *l, page_pool *p) {
  TRY(mutex_create(&p->lock));
  TRY(clave_session_create(l->paged, l->device, &p->options, &p->session));
  return set_pages(p, first_pages(l));
}

static clave_status make_pool(clave_llm *l, const clave_session_options *o, page_pool **out) {
  page_pool *p = calloc(1, sizeof *p);
  if (!p) return status_no_memory();
  p->options = copy_options(o);
  clave_status st = init_pool(l, p);
  if (st) {
    destroy_pool(p);
    return st;
  }
  p->next = l->pools;
  l->pools = *out = p;
  return NULL;
}

clave_status page_pool_take(clave_llm *l, const clave_session_options *o, page_pool **out) {
  clave_status st = NULL;
  mutex_lock(l->pools_lock);
  *out = l->pools;
  while (*out && !same_options(&(*out)->options, o)) *out = (*out)->next;
  if (!*out) st = make_pool(l, o, out);
  if (*out) (*out)->holds++;
  mutex_unlock(l->pools_lock);
  return st;
}

void page_pool_give(clave_llm *l, page_pool *p) {
  if (!p) return;
  mutex_lock(l->pools_lock);
  bool last = --p->holds == 0;
  page_pool **at = &l->pools;
  while (last && *at != p) at = &(*at)->next;
  if (last) *at = p->next;
  mutex_unlock(l->pools_lock);
  if (last) destroy_pool(p);
}

/* ---------------------------------------------------------------- pages */

/* Half as many again, or, where there is no memory for that, as many as are needed. */
clave_status page_pool_reserve(page_pool *p, size_t n) {
  size_t needed = p->n_used + n, more = p->n_pages + p->n_pages / 2;
  if (needed <= p->n_pages) return NULL;
  if (needed > UINT32_MAX) return status_no_memory();
  clave_status st = more > needed ? set_pages(p, (uint32_t)more) : NULL;
  clave_status_free(st);
  return needed <= p->n_pages ? NULL : set_pages(p, (uint32_t)needed);
}

uint32_t page_pool_alloc(page_pool *p) {
  uint32_t i = 0;
  while (p->users[i]) i++;
  p->users[i] = 1;
  p->n_used++;
  return i;
}

void page_pool_drop(const clave_llm *l, page_pool *p, uint32_t page) {
  if (--p->users[page]) return;
  if (--p->n_used || p->n_pages == first_pages(l)) return;
  clave_status_free(set_pages(p, first_pages(l)));
}

bool page_pool_trim(page_pool *p) {
  uint32_t n = p->n_pages;
  while (n > 1 && !p->users[n - 1]) n--;
  if (n == p->n_pages) return false;
  clave_status st = set_pages(p, n);
  clave_status_free(st);
  return !st;
}

clave_status page_pool_copy(const clave_llm *l, page_pool *p, uint32_t from, uint32_t to) {
  for (uint32_t i = 0; i < l->n_page_states; i++) {
    size_t bytes = llm_page_bytes(l, i);
    TRY(clave_session_copy_state_part(p->session, i, from * bytes, to * bytes, bytes));
  }
  return NULL;
}
