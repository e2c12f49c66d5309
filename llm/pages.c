/* The pages of a conversation: taken one by one, shared by forks, read and written whole. */
#include "llm/pages.h"

#include <stdlib.h>
#include <string.h>

/* Page i becomes this conversation's alone; `copied`: with what is in it. */
static clave_status own_page(clave_llm_conversation *c, size_t i, bool copied) {
  uint32_t old = c->pages[i];
  if (c->shared->users[old] == 1) return NULL;
  TRY(page_pool_reserve(c->shared, 1));
  uint32_t page = page_pool_alloc(c->shared);
  clave_status st = copied ? page_pool_copy(c->llm, c->shared, old, page) : NULL;
  c->pages[i] = st ? old : page;
  page_pool_drop(c->llm, c->shared, st ? page : old);
  return st;
}

clave_status pages_make_room(clave_llm_conversation *c, size_t from, size_t to) {
  size_t rows = c->llm->info.page_rows, needed = (to + rows - 1) / rows;
  for (size_t i = from / rows; i < c->n_pages && i < needed; i++)
    TRY(own_page(c, i, i * rows < from));
  if (c->n_pages >= needed) return NULL;
  if (!array_reserve(&c->pages, &c->page_capacity, needed, sizeof *c->pages))
    return status_no_memory();
  TRY(page_pool_reserve(c->shared, needed - c->n_pages));
  while (c->n_pages < needed) c->pages[c->n_pages++] = page_pool_alloc(c->shared);
  return NULL;
}

void pages_keep(clave_llm_conversation *c, size_t count) {
  size_t rows = c->llm->info.page_rows, kept = (count + rows - 1) / rows;
  while (c->n_pages > kept) page_pool_drop(c->llm, c->shared, c->pages[--c->n_pages]);
}

clave_status pages_share(const clave_llm_conversation *from, clave_llm_conversation *to) {
  if (!array_reserve(&to->pages, &to->page_capacity, from->n_pages, sizeof *to->pages))
    return status_no_memory();
  for (size_t i = 0; i < from->n_pages; i++) {
    to->pages[i] = from->pages[i];
    to->shared->users[to->pages[i]]++;
  }
  to->n_pages = from->n_pages;
  return NULL;
}

/* ---------------------------------------------------------------- whole */

/* Between `rows` rows at page + row * size of each head in a page and rows from `first` on of all
 * (heads, total rows). */
typedef struct page_copy {
  size_t heads, page_rows, size; /* size: bytes of a row */
  size_t total, first, rows;
} page_copy;

static page_copy copy_of(const clave_llm_conversation *c, uint32_t i, size_t total, size_t rows,
                         size_t page) {
  const llm_page_state *s = &c->llm->page_states[i];
  size_t n = c->llm->info.page_rows, first = page * n;
  return (page_copy){s->heads, n, s->row_bytes, total, first, rows - first < n ? rows - first : n};
}

static void from_page(const page_copy *p, const char *page, char *all) {
  for (size_t h = 0; h < p->heads; h++)
    memcpy(all + (h * p->total + p->first) * p->size, page + h * p->page_rows * p->size,
           p->rows * p->size);
}

static void to_page(const page_copy *p, const char *all, char *page) {
  for (size_t h = 0; h < p->heads; h++)
    memcpy(page + h * p->page_rows * p->size, all + (h * p->total + p->first) * p->size,
           p->rows * p->size);
}

clave_status pages_read(const clave_llm_conversation *c, uint32_t i, size_t rows, void *data) {
  const llm_page_state *s = &c->llm->page_states[i];
  size_t bytes = llm_page_bytes(c->llm, i), run = rows < c->n_run ? rows : c->n_run;
  char *page = calloc(bytes + 1, 1);
  clave_status st = page ? NULL : status_no_memory();
  if (run < rows) memset(data, 0, s->heads * rows * s->row_bytes);
  for (size_t k = 0; k * c->llm->info.page_rows < run && !st; k++) {
    const page_copy copy = copy_of(c, i, rows, run, k);
    st = clave_session_read_state_part(c->shared->session, i, c->pages[k] * bytes, page, bytes);
    if (!st) from_page(&copy, page, data);
  }
  free(page);
  return st;
}

clave_status pages_write(clave_llm_conversation *c, uint32_t i, size_t rows, size_t stored,
                         const void *data) {
  size_t bytes = llm_page_bytes(c->llm, i);
  char *page = calloc(bytes + 1, 1);
  clave_status st = page ? NULL : status_no_memory();
  for (size_t k = 0; k * c->llm->info.page_rows < rows && !st; k++) {
    const page_copy copy = copy_of(c, i, stored, rows, k);
    to_page(&copy, data, page);
    st = clave_session_write_state_part(c->shared->session, i, c->pages[k] * bytes, page, bytes);
  }
  free(page);
  return st;
}
